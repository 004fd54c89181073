//! The tests of `kubectl nodelife drain`, each drain as a NodeMaintenance: the same
//! outcome, the same sentences, the same guarantees. Each test is run so, or named with the reason why
//! not.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::drain::operators;
use crate::drain::support::controller::by_maintenance;

macro_rules! run {
    ($($file:ident: $($test:ident),+;)+) => {
        const RUN: &[&str] = &[$($(concat!(stringify!($file), "::", stringify!($test)),)+)+];

        $($(
            #[test]
            fn $test() {
                by_maintenance(crate::drain::$file::$test);
            }
        )+)+
    };
}

run! {
    api_responses: an_operators_pod_is_tried_once_and_evicted_when_allowed,
        every_429_is_reported_with_its_cause,
        a_block_is_reported_once_across_retries,
        an_eviction_answered_with_401_is_retried,
        a_denial_after_throttling_is_retried,
        a_throttled_eviction_is_retried_and_not_called_blocked,
        a_policys_denial_is_final_and_quoted;
    between: a_node_starts_only_while_enough_others_are_available,
        daemon_set_pods_are_evicted_last_and_once;
    budgets: nodes_drained_at_once_share_a_budget,
        a_lowered_budget_lets_the_pod_be_evicted_at_once,
        a_deployment_without_a_budget_keeps_three_quarters,
        a_node_is_drained_without_violating_its_budget;
    disturbances: a_disturbed_drain_ends_with_every_node_drained_or_explained;
    faults: no_pod_is_evicted_twice_when_30_percent_of_requests_fail,
        budgets_hold_when_30_percent_of_requests_fail,
        what_an_api_server_forbids_at_its_start_is_repeated,
        a_watch_that_ends_at_once_is_not_repeated_at_once,
        a_watch_that_shows_nothing_new_is_not_repeated_at_once,
        a_failed_list_of_all_pods_ends_no_drain,
        a_pod_is_looked_up_in_a_list_if_it_may_not_be_read,
        a_late_answer_to_an_older_list_ends_no_drain,
        a_drain_survives_an_api_server_restart,
        the_timeout_covers_the_lock;
    kubectl_parity: a_replacement_on_another_node_is_never_evicted,
        a_pod_bound_late_is_evicted_too,
        an_orphan_of_a_deleted_controller_needs_force,
        daemon_sets_of_other_api_groups_are_left_alone,
        a_pod_deleted_in_a_terminating_namespace_is_gone,
        every_warning_of_a_pod_is_printed,
        a_fatal_error_is_reported_while_other_pods_wait,
        a_blocked_drain_exits_with_5_at_its_timeout,
        a_stuck_pod_exits_with_6,
        a_blocked_eviction_is_explained_once_and_retried;
    lock: a_lock_is_renewed_at_the_servers_time_after_a_sleep,
        locks_are_renewed_while_others_are_acquired;
    multi_node: no_pod_moves_twice_and_no_zone_loses_two_nodes_at_once,
        a_node_that_cannot_be_drained_is_quarantined,
        annotations_and_rules_decide_which_pods_stay,
        an_opened_budget_is_used_within_a_second,
        an_aborted_drain_leaves_an_event;
    node_changes: a_node_that_is_deleted_before_its_lock_ends_no_other_drain,
        an_uncordoned_node_is_left_alone,
        a_drained_node_is_not_touched_again,
        a_deleted_node_ends_no_other_drain,
        a_recreated_node_is_left_alone,
        changes_between_lock_and_cordon_are_seen,
        changes_of_many_nodes_reach_the_right_ones,
        a_failed_cordon_is_repeated_or_ends_its_node_alone;
    node_conditions: a_drain_goes_on_if_it_may_not_set_conditions;
    output: a_drain_without_permission_to_write_events_warns,
        the_node_has_events_of_its_drain;
    permissions: nothing_is_evicted_if_the_cordon_is_forbidden,
        a_drain_works_without_permission_to_read_budgets,
        a_drain_works_without_permission_to_watch_budgets,
        the_permission_to_evict_is_asked_before_the_cordon,
        the_cordon_is_undone_without_permission_to_evict,
        wait_ready_is_refused_if_replicas_may_not_be_watched;
    refusals: all_refusals_are_reported_at_once_and_nothing_is_written,
        two_budgets_on_a_pod_are_named_before_the_cordon;
    returning: a_pod_whose_template_names_the_node_is_evicted_once,
        a_pod_that_tolerates_the_cordon_is_evicted_once,
        pods_of_a_daemon_set_created_meanwhile_stay;
    selection: unready_pods_are_evicted_under_an_exhausted_budget,
        strict_order_waits_for_blocked_pods,
        priority_order_skips_blocked_pods,
        higher_priority_pods_are_evicted_after_lower_ones,
        a_pod_selector_leaves_and_counts_other_pods,
        an_overdue_pod_is_skipped_on_request,
        a_partial_drain_leaves_impossible_pods_and_exits_with_7,
        a_blocked_pod_delays_no_other_pod,
        a_stuck_node_delays_no_other_with_concurrency;
    surge: a_surge_does_not_help_a_stateful_set_and_says_so,
        a_surge_that_is_forbidden_is_told_before_the_cordon,
        a_surge_that_fails_is_told_at_once,
        a_rollout_moves_a_single_replica_without_downtime,
        a_surge_replica_is_added_and_taken_back;
    terminating: an_evicted_pod_is_skipped_once_it_is_overdue,
        a_shorter_grace_period_is_sent_to_terminating_pods,
        a_terminating_daemon_set_pod_is_not_waited_for;
    timeout_and_interrupt: the_timeout_covers_the_command_and_not_each_node;
    undo: a_failed_drain_undoes_its_cordon_on_request;
    turns: a_node_that_only_budgets_block_makes_way,
        a_refused_node_holds_up_no_other,
        a_timeout_of_a_node_ends_no_other;
    wait: only_a_named_budget_is_bypassed_and_only_after_its_time,
        wait_ready_ends_when_every_replacement_is_ready,
        wait_volumes_ends_when_volumes_are_detached,
        a_daemon_set_pods_volume_delays_no_drain,
        a_volume_that_stays_attached_is_named_at_the_end,
        two_nodes_of_one_zone_are_never_drained_at_once,
        a_budget_that_lets_pods_go_is_not_bypassed,
        wait_ready_names_controllers_that_it_cannot_count,
        once_tries_each_pod_once_and_waits_for_no_budget,
        a_pending_replacement_is_reported_with_the_schedulers_words,
        each_node_waits_for_its_own_replacements,
        wait_ready_ends_when_the_workload_is_deleted,
        a_budget_that_lets_pods_go_is_waited_for;
}

/// Those of a folder below.
const RUN_BELOW: [&str; 2] = [
    "operators/live::a_switchover_is_waited_for_and_told",
    "operators/mod::each_scene_has_its_verdict_and_its_end",
];

#[test]
fn a_switchover_is_waited_for_and_told() {
    by_maintenance(operators::live::a_switchover_is_waited_for_and_told);
}

#[test]
fn each_scene_has_its_verdict_and_its_end() {
    by_maintenance(operators::each_scene_has_its_verdict_and_its_end);
}

/// Why tests are not run with maintenances, and which.
const LEFT_OUT: &[(&str, &[&str])] = &[
    (
        "cannot be asked: --dry-run prints a plan, and a maintenance prints none",
        &[
            "placement::the_plan_names_a_pod_that_fits_no_other_node",
            "placement::the_plan_names_a_pod_with_a_local_volume",
            "refusals::a_dry_run_prints_the_true_plan_and_writes_nothing",
        ],
    ),
    (
        "cannot be asked: --undo is the end of the object, see give_back",
        &[
            "node_conditions::a_condition_of_somebody_else_is_left_alone",
            "node_conditions::conditions_follow_the_drain_and_undo_removes_them",
            "operators/live::undo_takes_back_evacuations",
            "surge::a_surge_replica_that_a_killed_drain_left_is_taken_back",
            "undo::a_node_that_fails_holds_up_no_other_undo",
            "undo::undo_uncordons_only_nodes_that_a_drain_cordoned",
        ],
    ),
    (
        "cannot be asked: --gate runs a command on the user's machine, see gates",
        &[
            "between::a_gate_that_fails_stops_the_nodes_that_follow",
            "between::a_gate_ends_with_the_drain_or_at_its_timeout",
        ],
    ),
    (
        "cannot be asked: is about the command line, which --detach reads as any drain does",
        &[
            "flags::every_global_kubectl_flag_works_or_is_listed_as_meaningless",
            "flags::every_kubectl_drain_flag_is_accepted_with_its_default",
            "flags::flags_work_as_in_kubectl",
            "refusals::unsafe_evictions_need_force",
        ],
    ),
    (
        "cannot be asked: a maintenance waits for a node that is not there, see waits",
        &["refusals::a_missing_node_gives_one_clear_message"],
    ),
    (
        "cannot be asked: a maintenance gets no Ctrl-C and no signal; to delete it gives all back",
        &[
            "kubectl_parity::ctrl_c_stops_evicting_and_a_second_run_continues",
            "lock::an_interrupt_leaves_no_lock_that_was_not_answered",
            "multi_node::each_node_is_cordoned_when_its_drain_starts",
            "timeout_and_interrupt::a_pod_within_its_grace_period_is_not_stuck",
            "timeout_and_interrupt::a_second_ctrl_c_exits_without_waiting",
            "timeout_and_interrupt::ctrl_c_before_the_cordon_reports_what_changed",
            "unread_output::hup_int_and_term_end_a_drain_alike",
        ],
    ),
    (
        "cannot be asked: a maintenance has no terminal and no stdout",
        &[
            "output::a_terminal_shows_the_waiting_pod_and_its_budget",
            "output::every_end_prints_one_document",
            "unread_output::a_closed_stdout_changes_no_drain_and_no_status",
            "unread_output::a_full_disk_changes_no_drain_and_no_status",
            "unread_output::terminals_that_stand_still_delay_no_drain_and_no_signal",
        ],
    ),
    (
        "cannot be asked: while the API server is silent nobody can read how a maintenance ended",
        &[
            "faults::the_timeout_covers_the_first_request",
            "faults::the_timeout_holds_when_the_api_server_falls_silent",
        ],
    ),
    (
        "cannot be asked: counts the requests of a process, and the controller has others",
        &[
            "lock::nodes_are_locked_cordoned_and_watched_in_few_requests",
            "multi_node::a_drain_of_100_pods_sends_20_requests_besides_evictions",
        ],
    ),
    (
        "cannot be asked: a controller that may not watch nodes begins no maintenance",
        &["permissions::a_right_that_is_missed_later_is_named_before_the_cordon"],
    ),
    (
        "cannot be asked: the rights of the controller are another file's, see manifests::controller",
        &["permissions::the_cluster_role_of_the_manifests_is_enough"],
    ),
    (
        "cannot be asked: calls the engine, or kills the process that a maintenance outlives, see kills",
        &[
            "engine::a_drain_goes_on_where_another_process_left_it",
            "engine::a_drain_that_is_only_planned_changes_nothing",
            "engine::what_a_dead_process_took_is_given_back",
            "lock::a_second_run_continues_a_killed_one",
        ],
    ),
    (
        "cannot be asked: a maintenance waits for the lock of another drain, and is not refused, see waits",
        &[
            "lock::a_drain_that_lost_its_lock_stops",
            "lock::a_lock_from_another_machine_expires_without_renewal",
            "lock::a_second_drain_names_the_first_and_changes_nothing",
        ],
    ),
    (
        "cannot be asked: evict has no object",
        &[
            "evict::a_blocked_pod_is_explained_and_a_missing_one_named",
            "evict::a_named_pod_is_evicted_and_its_node_left_alone",
            "evict::another_pod_of_the_same_name_is_never_evicted",
        ],
    ),
];

#[test]
fn each_drain_test_is_run_or_left_out_for_a_reason() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/drains/drain"));
    let mut all = BTreeSet::new();
    for below in ["", "operators/"] {
        for entry in fs::read_dir(folder.join(below)).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_file() || path == folder.join("mod.rs") {
                continue;
            }
            let file = path.file_stem().unwrap().to_str().unwrap();
            let source = fs::read_to_string(&path).unwrap();
            let attributes = source.split("\n#[");
            let found =
                attributes.filter(|a| a.starts_with("test]") || a.starts_with("tokio::test"));
            for rest in found {
                let (_, rest) = rest.split_once("fn ").unwrap();
                let (name, _) = rest.split_once("()").unwrap();
                all.insert(format!("{below}{file}::{name}"));
            }
        }
    }
    let left_out = LEFT_OUT.iter().flat_map(|(_, tests)| *tests);
    let named: Vec<&str> = RUN
        .iter()
        .chain(&RUN_BELOW)
        .chain(left_out)
        .copied()
        .collect();
    let once: BTreeSet<String> = named.iter().map(|&name| name.to_owned()).collect();
    assert_eq!(once.len(), named.len(), "a test is named twice");
    assert_eq!(once, all);
}
