//! Tests of `kubectl nodelife drain`. Each ends with [`support::TestEnvironment::check`], which
//! checks the guarantees in the API server's audit log.
//!
//! Defects of `kubectl drain` v1.37, and the tests that nodelife does not have them:
//!
//! | | kubectl | here |
//! |---|---|---|
//! | a | continues after a failed cordon | `permissions::nothing_is_evicted_if_the_cordon_is_forbidden` |
//! | b | lists once: pods bound later stay | `kubectl_parity::a_pod_bound_late_is_evicted_too` |
//! | c | evicts the replacement on another node | `kubectl_parity::a_replacement_on_another_node_is_never_evicted` |
//! | d, e, f | hangs in `--dry-run=server` under a budget (before 1.37 with `--disable-eviction`, too), and prints too good a plan | `refusals::a_dry_run_prints_the_true_plan_and_writes_nothing` |
//! | g | stops waiting at the first 5xx | `faults::no_pod_is_evicted_twice_when_30_percent_of_requests_fail` |
//! | h | hides a fatal error of one pod until all pods have ended | `kubectl_parity::a_fatal_error_is_reported_while_other_pods_wait` |
//! | i | evicts orphans without `--force` | `kubectl_parity::an_orphan_of_a_deleted_controller_needs_force` |
//! | j | evicts DaemonSet pods of other API groups | `kubectl_parity::daemon_sets_of_other_api_groups_are_left_alone` |
//! | k | prints one of several warnings | `kubectl_parity::every_warning_of_a_pod_is_printed` |
//! | l | prints refusals without namespaces and unordered | `refusals::all_refusals_are_reported_at_once_and_nothing_is_written` |
//! | m | applies `--timeout` to each node | `kubectl_parity::a_blocked_drain_exits_with_5_at_its_timeout`, `timeout_and_interrupt::the_timeout_covers_the_command_and_not_each_node` |
//! | n | drains one node after the other, and cordons all of them first | `selection::a_stuck_node_delays_no_other_with_concurrency`, `multi_node::each_node_is_cordoned_when_its_drain_starts` |
//! | o | exits at Ctrl-C without a message | `kubectl_parity::ctrl_c_stops_evicting_and_a_second_run_continues`, `timeout_and_interrupt::ctrl_c_before_the_cordon_reports_what_changed` |
//! | p | retries in lockstep, every 5 s | `budgets::a_node_is_drained_without_violating_its_budget` |
//! | q | exits with 1 for every failure | `refusals::all_refusals_are_reported_at_once_and_nothing_is_written`, `selection::a_partial_drain_leaves_impossible_pods_and_exits_with_7`, `kubectl_parity::a_stuck_pod_exits_with_6` |
//! | r | repeats its message and does not name the budget | `kubectl_parity::a_blocked_eviction_is_explained_once_and_retried`, `api_responses::a_block_is_reported_once_across_retries` |
//! | s | never ends in a terminating namespace | `kubectl_parity::a_pod_deleted_in_a_terminating_namespace_is_gone` |
//!
//! What a drain promises, and the test of each promise:
//!
//! | | promise | test |
//! |---|---|---|
//! | 1 | a blocked eviction is explained once | `kubectl_parity::a_blocked_eviction_is_explained_once_and_retried`, `budgets::a_lowered_budget_lets_the_pod_be_evicted_at_once`, `output::the_node_has_events_of_its_drain` |
//! | 2 | the plan is true and writes nothing | `refusals::a_dry_run_prints_the_true_plan_and_writes_nothing` |
//! | 3 | all refusals at once, before the cordon | `refusals::all_refusals_are_reported_at_once_and_nothing_is_written` |
//! | 4 | a replacement is never evicted; the UID in each eviction | `kubectl_parity::a_replacement_on_another_node_is_never_evicted`, and [`support::TestEnvironment::check`] in every test |
//! | 5 | pods bound late are evicted too | `kubectl_parity::a_pod_bound_late_is_evicted_too` |
//! | | a pod that comes back to the cordoned node is found out and left alone, and a DaemonSet's is never evicted | `returning::a_pod_whose_template_names_the_node_is_evicted_once`, `returning::a_pod_that_tolerates_the_cordon_is_evicted_once`, `returning::pods_of_a_daemon_set_created_meanwhile_stay` |
//! | 6 | one eviction per pod, few other requests, and none late | `multi_node::a_drain_of_100_pods_sends_20_requests_besides_evictions`, `multi_node::an_opened_budget_is_used_within_a_second` |
//! | 7 | no more evictions than a budget allows, few of them refused | `budgets::a_node_is_drained_without_violating_its_budget`, `selection::unready_pods_are_evicted_under_an_exhausted_budget` |
//! | | a workload without a budget keeps most of its pods | `budgets::a_deployment_without_a_budget_keeps_three_quarters` |
//! | 8 | throttling, webhooks and overload are not reported as budgets | `api_responses::a_throttled_eviction_is_retried_and_not_called_blocked`, `api_responses::every_429_is_reported_with_its_cause`, `api_responses::a_denial_after_throttling_is_retried`, `api_responses::a_policys_denial_is_final_and_quoted`, `api_responses::an_eviction_answered_with_401_is_retried` |
//! | | a pod that an operator protects is tried once, then waited for; what the operator does is told, and taken back on undo | `api_responses::an_operators_pod_is_tried_once_and_evicted_when_allowed`, `operators/mod::each_scene_has_its_verdict_and_its_end`, `operators/live::a_switchover_is_waited_for_and_told`, `operators/live::undo_takes_back_evacuations` |
//! | 9 | the exit status names the failure, documents have the details | `selection::a_partial_drain_leaves_impossible_pods_and_exits_with_7`, `selection::a_blocked_pod_delays_no_other_pod`, `output::every_end_prints_one_document` |
//! | 10 | `--timeout` holds when the server does not respond | `faults::the_timeout_holds_when_the_api_server_falls_silent`, `faults::the_timeout_covers_the_lock`, `faults::the_timeout_covers_the_first_request`, `timeout_and_interrupt::the_timeout_covers_the_command_and_not_each_node`, `kubectl_parity::a_stuck_pod_exits_with_6` |
//! | 11 | Ctrl-C, a second run, and `--undo` | `kubectl_parity::ctrl_c_stops_evicting_and_a_second_run_continues`, `timeout_and_interrupt::a_second_ctrl_c_exits_without_waiting`, `lock::a_second_run_continues_a_killed_one`, `undo::undo_uncordons_only_nodes_that_a_drain_cordoned`, `undo::a_node_that_fails_holds_up_no_other_undo` |
//! | 12 | `--surge` starts another pod before it evicts a single one | `surge::a_rollout_moves_a_single_replica_without_downtime`, `surge::a_surge_replica_is_added_and_taken_back`, `surge::a_surge_that_is_forbidden_is_told_before_the_cordon`, `surge::a_surge_that_fails_is_told_at_once`, `surge::a_surge_does_not_help_a_stateful_set_and_says_so`, `surge::a_surge_replica_that_a_killed_drain_left_is_taken_back` |
//! | 13 | order by priority, annotations and rules | `selection::higher_priority_pods_are_evicted_after_lower_ones`, `selection::strict_order_waits_for_blocked_pods`, `selection::priority_order_skips_blocked_pods`, `multi_node::annotations_and_rules_decide_which_pods_stay` |
//! | 14 | several nodes and zones | `multi_node::no_pod_moves_twice_and_no_zone_loses_two_nodes_at_once`, `wait::two_nodes_of_one_zone_are_never_drained_at_once`, `budgets::nodes_drained_at_once_share_a_budget` |
//! | | a node that is refused, blocked by budgets or too slow holds up no other | `turns::a_refused_node_holds_up_no_other`, `turns::a_node_that_only_budgets_block_makes_way`, `turns::a_timeout_of_a_node_ends_no_other` |
//! | | soak, gate and `--max-unavailable` hold back the next node, and a gate leaves no process | `between::a_gate_that_fails_stops_the_nodes_that_follow`, `between::a_gate_ends_with_the_drain_or_at_its_timeout`, `between::a_node_starts_only_while_enough_others_are_available` |
//! | | DaemonSet pods are evicted on request alone, last and once | `between::daemon_set_pods_are_evicted_last_and_once` |
//! | | `evict` evicts named pods alone, with the rights of one namespace, and no other of their name | `evict::a_named_pod_is_evicted_and_its_node_left_alone`, `evict::a_blocked_pod_is_explained_and_a_missing_one_named`, `evict::another_pod_of_the_same_name_is_never_evicted` |
//! | 15 | Pending replacements, with the scheduler's message | `wait::a_pending_replacement_is_reported_with_the_schedulers_words`, `wait::each_node_waits_for_its_own_replacements`, `wait::wait_ready_ends_when_the_workload_is_deleted`, `wait::wait_ready_names_controllers_that_it_cannot_count` |
//! | 16 | the plan names pods that fit no other node | `placement::the_plan_names_a_pod_that_fits_no_other_node`, `placement::the_plan_names_a_pod_with_a_local_volume` |
//! | 17 | why a terminating pod does not go | `selection::a_stuck_node_delays_no_other_with_concurrency`, `timeout_and_interrupt::a_pod_within_its_grace_period_is_not_stuck` |
//! | | kubectl's recipes for dead nodes end here as well | `terminating::an_evicted_pod_is_skipped_once_it_is_overdue`, `terminating::a_shorter_grace_period_is_sent_to_terminating_pods`, `terminating::a_terminating_daemon_set_pod_is_not_waited_for` |
//! | 18 | named budgets are bypassed, after their time, and not while they let pods go | `wait::only_a_named_budget_is_bypassed_and_only_after_its_time`, `wait::a_budget_that_lets_pods_go_is_not_bypassed` |
//! | | `--blocked-timeout` counts from when the budget last let a pod go | `wait::a_budget_that_lets_pods_go_is_waited_for` |
//! | 19 | `--wait-volumes` waits for volumes | `wait::wait_volumes_ends_when_volumes_are_detached`, `wait::a_daemon_set_pods_volume_delays_no_drain`, `wait::a_volume_that_stays_attached_is_named_at_the_end` |
//! | 20 | no eviction without a cordon, and no cordon left without permission to evict | `permissions::nothing_is_evicted_if_the_cordon_is_forbidden`, `permissions::the_cordon_is_undone_without_permission_to_evict` |
//! | | unreadable budgets are left to the API server | `permissions::a_drain_works_without_permission_to_read_budgets`, `permissions::a_drain_works_without_permission_to_watch_budgets` |
//! | | a node that somebody uncordons, deletes or re-creates ends its own drain, and a drained one is not touched again | `node_changes::an_uncordoned_node_is_left_alone`, `node_changes::changes_of_many_nodes_reach_the_right_ones`, `node_changes::a_deleted_node_ends_no_other_drain`, `node_changes::a_recreated_node_is_left_alone`, `node_changes::a_drained_node_is_not_touched_again`, `node_changes::a_node_that_is_deleted_before_its_lock_ends_no_other_drain`, `node_changes::changes_between_lock_and_cordon_are_seen` |
//! | | a failed cordon is repeated, or ends the drain of its node alone | `node_changes::a_failed_cordon_is_repeated_or_ends_its_node_alone` |
//! | | a permission that is missed later is named before the cordon | `permissions::a_right_that_is_missed_later_is_named_before_the_cordon`, `permissions::wait_ready_is_refused_if_replicas_may_not_be_watched`, `permissions::the_permission_to_evict_is_asked_before_the_cordon` |
//! | | the ClusterRoles of the manifests are enough | `permissions::the_cluster_role_of_the_manifests_is_enough` |
//! | 21 | one try per pod, or selected pods only | `wait::once_tries_each_pod_once_and_waits_for_no_budget`, `selection::a_pod_selector_leaves_and_counts_other_pods` |
//! | 22 | two drains of one node do not interfere, and locks do not expire while others are acquired | `lock::a_second_drain_names_the_first_and_changes_nothing`, `lock::locks_are_renewed_while_others_are_acquired`, `lock::an_interrupt_leaves_no_lock_that_was_not_answered`, `lock::a_lock_is_renewed_at_the_servers_time_after_a_sleep` |
//! | 23 | events, and a screen only on a terminal | `output::the_node_has_events_of_its_drain`, `multi_node::an_aborted_drain_leaves_an_event`, `output::a_terminal_shows_the_waiting_pod_and_its_budget` |
//! | | output that nobody reads changes nothing, and all signals end alike | `unread_output::a_closed_stdout_changes_no_drain_and_no_status`, `unread_output::a_full_disk_changes_no_drain_and_no_status`, `unread_output::terminals_that_stand_still_delay_no_drain_and_no_signal`, `unread_output::hup_int_and_term_end_a_drain_alike` |
//! | | nodes that cannot be drained are quarantined | `multi_node::a_node_that_cannot_be_drained_is_quarantined` |
//! | | the API server may fail and restart | `faults::budgets_hold_when_30_percent_of_requests_fail`, `faults::a_drain_survives_an_api_server_restart`, `faults::what_an_api_server_forbids_at_its_start_is_repeated`, `faults::a_watch_that_ends_at_once_is_not_repeated_at_once`, `faults::a_watch_that_shows_nothing_new_is_not_repeated_at_once`, `faults::a_failed_list_of_all_pods_ends_no_drain`, `faults::a_pod_is_looked_up_in_a_list_if_it_may_not_be_read`, `faults::a_late_answer_to_an_older_list_ends_no_drain` |
//!
//! `oracle::budget` and `oracle::live_budget` compare the arithmetic of budgets with the disruption
//! controller's, the simulation of `nodelife_drain_plan` runs the state machine in random schedules,
//! and `benches/drain` compares the time of a drain with that of other drivers.

pub(crate) mod api_responses;
pub(crate) mod between;
pub(crate) mod budgets;
pub(crate) mod disturbances;
mod engine;
mod evict;
pub(crate) mod faults;
mod flags;
pub(crate) mod kubectl_parity;
pub(crate) mod lock;
pub(crate) mod multi_node;
pub(crate) mod node_changes;
pub(crate) mod node_conditions;
pub(crate) mod operators;
pub(crate) mod output;
pub(crate) mod permissions;
mod placement;
pub(crate) mod refusals;
pub(crate) mod returning;
pub(crate) mod selection;
pub(crate) mod support;
pub(crate) mod surge;
pub(crate) mod terminating;
pub(crate) mod timeout_and_interrupt;
pub(crate) mod turns;
pub(crate) mod undo;
mod unread_output;
pub(crate) mod wait;

/// The tables above name tests that exist.
#[test]
fn every_test_named_above_exists() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drains/drain");
    let named: Vec<&str> = include_str!("mod.rs")
        .lines()
        .filter(|line| line.starts_with("//! |"))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(|name| name.contains("::") && !name.starts_with("support::"))
        .collect();
    assert!(named.len() > 40, "{named:?}");
    for name in named {
        let (module, test) = name.split_once("::").unwrap();
        let file = std::fs::read_to_string(format!("{folder}/{module}.rs")).unwrap();
        assert!(file.contains(&format!("async fn {test}()")), "{name}");
    }
}
