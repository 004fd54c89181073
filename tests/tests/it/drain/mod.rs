//! `kubectl nodelife drain`. Each test ends with [`support::TestEnvironment::check`], which reads off the API
//! server's audit log that no promise was broken.
//!
//! What `kubectl drain` v1.36 gets wrong, and the test that we do not:
//!
//! | | kubectl | here |
//! |---|---|---|
//! | a | goes on when the cordon failed | `permissions::nothing_is_evicted_when_the_cordon_is_not_allowed` |
//! | b | never lists again: pods bound late stay | `kubectl_parity::a_pod_that_is_bound_late_goes_too` |
//! | c | evicts the replacement on another node | `kubectl_parity::a_replacement_on_another_node_is_never_evicted` |
//! | d, e, f | hangs in `--dry-run=server`, also with `--disable-eviction`, and plans too well | `refusals::a_dry_run_ends_at_once_with_a_truthful_plan_and_writes_nothing` |
//! | g | ends its wait at the first 5xx | `faults::nothing_is_evicted_twice_though_three_of_ten_answers_are_faults` |
//! | h | hides what is fatal for one pod until all have ended | `kubectl_parity::what_is_fatal_for_one_pod_is_told_while_others_wait` |
//! | i | evicts orphans without `--force` | `kubectl_parity::an_orphan_of_a_controller_that_is_gone_needs_force` |
//! | j | evicts DaemonSet pods of other API groups | `kubectl_parity::daemon_sets_of_other_api_groups_are_left_alone` |
//! | k | keeps one warning of several | `kubectl_parity::every_warning_of_a_pod_is_told` |
//! | l | names no namespaces, in no order | `refusals::every_refusal_is_told_at_once_and_nothing_is_written` |
//! | m | counts `--timeout` for each node | `kubectl_parity::the_time_of_the_command_holds_and_a_blocked_drain_ends_with_5`, `timeout_and_interrupt::the_time_is_the_commands_and_not_each_nodes` |
//! | n | empties one node after the other, and cordons all of them first | `selection::a_node_that_is_stuck_holds_up_no_other_with_concurrency`, `multi_node::a_node_is_cordoned_when_its_turn_comes` |
//! | o | ends at Ctrl-C without a word | `kubectl_parity::ctrl_c_stops_evicting_and_a_second_run_goes_on`, `timeout_and_interrupt::ctrl_c_before_the_cordon_says_what_was_changed` |
//! | p | tries again in lockstep, every 5 s | `budgets::a_node_is_emptied_and_its_budget_never_falls_below_what_it_needs` |
//! | q | ends with 1 whatever went wrong | `refusals::every_refusal_is_told_at_once_and_nothing_is_written`, `selection::a_partial_drain_leaves_what_is_impossible_and_ends_with_7`, `kubectl_parity::a_pod_that_is_evicted_and_does_not_go_ends_with_6` |
//! | r | repeats its line and leaves the budget out | `kubectl_parity::a_block_is_explained_once_and_ends_as_soon_as_the_budget_allows`, `api_responses::a_block_is_told_once_however_often_it_is_tried` |
//! | s | never ends in a terminating namespace | `kubectl_parity::a_pod_that_vanishes_in_a_terminating_namespace_is_gone` |
//!
//! What a drain promises, and the test of each promise:
//!
//! | | promise | test |
//! |---|---|---|
//! | 1 | a block is explained, once | `kubectl_parity::a_block_is_explained_once_and_ends_as_soon_as_the_budget_allows`, `budgets::a_budget_that_is_lifted_lets_the_pod_go_at_once`, `output::the_node_bears_events_of_its_drain` |
//! | 2 | the plan is truthful and writes nothing | `refusals::a_dry_run_ends_at_once_with_a_truthful_plan_and_writes_nothing` |
//! | 3 | all refusals at once, before the cordon | `refusals::every_refusal_is_told_at_once_and_nothing_is_written` |
//! | 4 | a replacement is never evicted; the UID in each eviction | `kubectl_parity::a_replacement_on_another_node_is_never_evicted`, and [`support::TestEnvironment::check`] in every test |
//! | 5 | what is bound late goes too | `kubectl_parity::a_pod_that_is_bound_late_goes_too` |
//! | 6 | one eviction a pod, few other requests, and none late | `multi_node::a_hundred_pods_take_a_hundred_evictions_and_twenty_other_requests`, `multi_node::a_budget_that_opens_is_used_within_a_second` |
//! | 7 | no more evictions than a budget allows, hardly any refused | `budgets::a_node_is_emptied_and_its_budget_never_falls_below_what_it_needs`, `selection::what_is_not_ready_goes_though_its_budget_allows_nothing` |
//! | | a workload without a budget keeps most of its pods | `budgets::a_deployment_without_a_budget_keeps_three_quarters` |
//! | 8 | priority and fairness is no budget, nor is a webhook or an overload | `api_responses::a_throttled_eviction_is_no_blocked_one_and_goes_when_it_may`, `api_responses::every_429_is_told_as_what_it_is`, `api_responses::what_a_policy_denies_is_impossible_and_told_in_its_words` |
//! | | what an operator guards is tried once, and waited for | `api_responses::what_an_operator_guards_is_tried_once_and_goes_when_it_may` |
//! | 9 | the status tells what went wrong, documents tell all | `selection::a_partial_drain_leaves_what_is_impossible_and_ends_with_7`, `selection::a_pod_that_stays_blocked_holds_up_nobody_else` |
//! | 10 | `--timeout` holds when nobody answers | `faults::the_time_of_the_command_holds_when_the_api_server_falls_silent`, `faults::the_time_of_the_command_holds_from_its_first_request_on`, `timeout_and_interrupt::the_time_is_the_commands_and_not_each_nodes`, `kubectl_parity::a_pod_that_is_evicted_and_does_not_go_ends_with_6` |
//! | 11 | Ctrl-C, a second run, and the way back | `kubectl_parity::ctrl_c_stops_evicting_and_a_second_run_goes_on`, `timeout_and_interrupt::a_second_ctrl_c_waits_for_no_answer`, `lock::a_second_run_goes_on_where_a_killed_one_was`, `undo::undo_uncordons_what_a_drain_cordoned_and_nothing_else` |
//! | 12 | another pod for a single one | `surge::a_rollout_moves_a_single_replica_that_is_never_missing`, `surge::a_replica_more_lets_a_single_one_go_and_is_taken_back` |
//! | 13 | order by priority, annotations and rules | `selection::the_higher_priority_goes_when_the_lower_is_gone`, `selection::a_strict_order_waits_for_what_a_budget_blocks`, `selection::an_order_by_priority_passes_by_what_a_budget_blocks`, `multi_node::pods_go_stay_and_finish_as_annotations_and_rules_say` |
//! | 14 | several nodes and zones | `multi_node::no_pod_moves_twice_and_no_zone_loses_two_nodes_at_once`, `wait::two_nodes_of_one_zone_are_never_drained_at_once`, `budgets::nodes_that_are_emptied_at_once_share_a_budget` |
//! | 15 | replacements that are Pending, with the scheduler's words | `wait::a_replacement_that_is_pending_is_told_of_with_the_schedulers_words`, `wait::each_node_waits_for_its_own_replacements` |
//! | 16 | what fits nowhere else is told before | `placement::a_pod_that_fits_nowhere_else_is_told_of_before_it_goes`, `placement::a_pod_with_a_local_volume_is_told_of_before_it_goes` |
//! | 17 | who holds a pod that does not go | `selection::a_node_that_is_stuck_holds_up_no_other_with_concurrency`, `timeout_and_interrupt::a_pod_that_has_grace_left_is_not_called_stuck` |
//! | 18 | budgets that are named are passed by, in their time | `wait::only_a_named_budget_is_passed_by_and_only_after_its_time` |
//! | 19 | volumes are waited for | `wait::a_drain_that_waits_for_volumes_ends_when_they_are_detached`, `wait::the_volume_of_a_daemon_sets_pod_holds_up_no_drain`, `wait::a_volume_that_stays_attached_is_named_at_the_end` |
//! | 20 | no eviction without a cordon, and no cordon left behind without the right to evict | `permissions::nothing_is_evicted_when_the_cordon_is_not_allowed`, `permissions::a_cordon_is_taken_back_where_the_right_to_evict_is_missing` |
//! | | budgets that may not be seen are left to the API server | `permissions::a_drain_goes_on_where_budgets_cannot_be_seen`, `permissions::a_drain_goes_on_that_loses_sight_of_budgets` |
//! | 21 | one try each, or some pods alone | `wait::once_gives_each_pod_one_try_and_waits_for_no_budget`, `selection::a_pod_selector_leaves_the_others_and_counts_them` |
//! | 22 | two drains of one node do not fight | `lock::a_second_drain_names_the_first_and_changes_nothing` |
//! | 23 | events, and a screen on a terminal alone | `output::the_node_bears_events_of_its_drain`, `multi_node::a_drain_that_ends_early_leaves_an_event`, `output::a_terminal_shows_the_pod_that_waits_and_its_budget` |
//! | | nodes that cannot be emptied are left alone | `multi_node::a_node_that_cannot_be_emptied_is_put_into_quarantine` |
//! | | the API server may fail and restart | `faults::a_budget_is_kept_though_three_of_ten_answers_are_faults`, `faults::a_drain_goes_on_after_a_restart_of_the_api_server` |
//!
//! The arithmetic of budgets is held against the disruption controller's in `oracle::budget` and
//! `oracle::live_budget`, the machine against random schedules in the simulation of
//! `nodelife_core::drain`, and the time
//! that a drain takes against others in `benches/drain`.

mod api_responses;
mod budgets;
mod faults;
mod flags;
mod kubectl_parity;
mod lock;
mod multi_node;
mod output;
mod permissions;
mod placement;
mod refusals;
mod selection;
mod support;
mod surge;
mod timeout_and_interrupt;
mod undo;
mod wait;

/// The tables above name tests that exist.
#[test]
fn every_test_that_is_named_here_exists() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/drain");
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
