//! The tests of `kubectl nodelife drain`, each drain as a NodeMaintenance: the same outcome, the same
//! sentences, the same guarantees. Those in brackets are always run, the others with `NODELIFE_THOROUGH`.
//!
//! A test is missing here if a maintenance cannot be asked for what it is about: it prints no plan, has no
//! terminal, no stdout, no signals, no `--undo`, no `--gate` and no `evict`; it waits for nodes that are not
//! there and for the locks of others; and the rights and requests of the controller are other ones.

use nodelife_tests::seed::is_thorough;

use crate::drain::operators;
use crate::drain::support::controller::by_maintenance;

macro_rules! run {
    ($($file:ident: [$($always:ident)?] $($test:ident),*;)+) => {
        $($(
            #[test]
            fn $always() {
                by_maintenance(crate::drain::$file::$always);
            }
        )?
        $(
            #[test]
            fn $test() {
                if is_thorough() {
                    by_maintenance(crate::drain::$file::$test);
                }
            }
        )*)+
    };
}

run! {
    api_responses: [a_block_is_reported_once_across_retries]
        an_operators_pod_is_tried_once_and_evicted_when_allowed,
        every_429_is_reported_with_its_cause,
        an_eviction_answered_with_401_is_retried,
        a_denial_after_throttling_is_retried,
        a_throttled_eviction_is_retried_and_not_called_blocked,
        a_policys_denial_is_final_and_quoted;
    between: []
        a_node_starts_only_while_enough_others_are_available;
    budgets: [a_node_is_drained_without_violating_its_budget]
        nodes_drained_at_once_share_a_budget,
        a_lowered_budget_lets_the_pod_be_evicted_at_once,
        a_deployment_without_a_budget_keeps_three_quarters;
    disturbances: []
        a_disturbed_drain_ends_with_every_node_drained_or_explained;
    faults: [no_pod_is_evicted_twice_when_30_percent_of_requests_fail]
        budgets_hold_when_30_percent_of_requests_fail,
        what_an_api_server_forbids_at_its_start_is_repeated,
        a_watch_that_ends_at_once_is_not_repeated_at_once,
        a_watch_that_shows_nothing_new_is_not_repeated_at_once,
        a_failed_list_of_all_pods_ends_no_drain,
        a_pod_is_looked_up_in_a_list_if_it_may_not_be_read,
        a_late_answer_to_an_older_list_ends_no_drain,
        a_drain_survives_an_api_server_restart,
        the_timeout_covers_the_lock;
    kubectl_parity: [a_replacement_on_another_node_is_never_evicted]
        a_pod_bound_late_is_evicted_too,
        an_orphan_of_a_deleted_controller_needs_force,
        daemon_sets_of_other_api_groups_are_left_alone,
        a_pod_deleted_in_a_terminating_namespace_is_gone,
        every_warning_of_a_pod_is_printed,
        a_blocked_drain_exits_with_5_at_its_timeout,
        a_stuck_pod_exits_with_6,
        a_blocked_eviction_is_explained_once_and_retried;
    lock: [the_lock_is_renewed_while_nodes_are_cordoned]
        a_lock_is_renewed_at_the_servers_time_after_a_sleep;
    multi_node: [annotations_and_rules_decide_which_pods_stay]
        no_pod_moves_twice_and_no_zone_loses_two_nodes_at_once,
        an_opened_budget_is_used_within_a_second,
        an_aborted_drain_leaves_an_event;
    node_changes: [an_uncordoned_node_is_left_alone]
        a_node_that_is_deleted_before_its_taint_ends_no_other_drain,
        a_drained_node_is_not_touched_again,
        a_deleted_node_ends_no_other_drain,
        a_recreated_node_is_left_alone,
        changes_between_list_and_cordon_are_seen,
        changes_of_many_nodes_reach_the_right_ones,
        a_failed_cordon_is_repeated_or_ends_its_node_alone;
    node_conditions: [a_drain_goes_on_if_it_may_not_set_conditions];
    output: [the_node_has_events_of_its_drain]
        a_drain_without_permission_to_write_events_warns;
    permissions: [nothing_is_evicted_if_the_cordon_is_forbidden]
        a_drain_works_without_permission_to_read_budgets,
        a_drain_works_without_permission_to_watch_budgets,
        the_permission_to_evict_is_asked_before_the_cordon,
        wait_ready_is_refused_if_replicas_may_not_be_watched;
    refusals: [all_refusals_are_reported_at_once_and_nothing_is_written]
        two_budgets_on_a_pod_are_named_before_the_cordon;
    reported: [a_spread_that_counts_the_cordoned_node_is_foretold]
        a_job_that_spoils_a_budget_is_waited_for,
        a_job_that_fails_for_good_is_foretold,
        a_pod_that_belongs_to_a_pod_goes_with_it,
        siblings_of_an_unknown_workload_go_one_after_the_other,
        an_owner_that_is_no_controller_is_named,
        the_only_ready_pod_of_a_workload_is_named,
        a_budget_that_cannot_be_counted_is_refused_before_the_cordon,
        a_budget_over_an_unknown_operators_deployment_never_allows,
        nodes_that_need_each_other_go_one_after_the_other,
        a_surge_that_has_no_place_changes_nothing,
        a_surge_into_a_broken_rollout_changes_nothing,
        a_webhook_that_will_allow_soon_is_asked_again,
        one_of_two_nodes_that_hold_each_other_is_finished,
        a_budget_that_longhorn_lifts_is_waited_for,
        a_surge_of_a_pod_that_is_bound_to_its_node_changes_nothing;
    reported_kinds: []
        a_job_whose_policy_fails_it_is_foretold,
        a_job_that_survives_its_eviction_is_no_reason_to_warn,
        the_driver_of_executors_says_what_ends_with_it,
        the_only_pod_of_a_stateful_set_is_named,
        the_owner_of_a_budget_is_named_and_waited_for,
        a_finished_pod_that_a_finalizer_keeps_is_named;
    consequences: []
        the_last_ready_pod_stays_while_a_quota_refuses_replacements,
        a_stateful_set_that_a_quota_refuses_replacements_is_named,
        the_last_endpoint_of_a_webhook_is_evicted_after_all_others,
        the_pod_that_a_drain_runs_in_goes_last,
        groups_of_a_leader_worker_set_go_one_after_the_other;
    returning: [a_pod_that_tolerates_the_cordon_is_evicted_once]
        a_pod_whose_template_names_the_node_is_evicted_once,
        pods_of_a_daemon_set_created_meanwhile_stay;
    selection: [a_partial_drain_leaves_impossible_pods_and_exits_with_7]
        unready_pods_are_evicted_under_an_exhausted_budget,
        priority_order_skips_blocked_pods,
        higher_priority_pods_are_evicted_after_lower_ones,
        a_pod_selector_leaves_and_counts_other_pods,
        an_overdue_pod_is_skipped_on_request,
        a_blocked_pod_delays_no_other_pod,
        a_stuck_node_delays_no_other_with_concurrency;
    surge: [a_rollout_moves_a_single_replica_without_downtime]
        a_surge_does_not_help_a_stateful_set_and_says_so,
        a_surge_that_is_forbidden_is_told_before_the_cordon,
        a_surge_that_fails_is_told_at_once;
    terminating: [a_shorter_grace_period_is_sent_to_terminating_pods]
        an_evicted_pod_is_skipped_once_it_is_overdue,
        a_terminating_daemon_set_pod_is_not_waited_for;
    timeout_and_interrupt: [the_timeout_covers_the_command_and_not_each_node];
    undo: [a_failed_drain_undoes_its_cordon_on_request];
    turns: [a_refused_node_holds_up_no_other]
        a_node_that_only_budgets_block_makes_way,
        a_timeout_of_a_node_ends_no_other;
    wait: [wait_ready_ends_when_every_replacement_is_ready]
        only_a_named_budget_is_bypassed_and_only_after_its_time,
        wait_volumes_ends_when_volumes_are_detached,
        a_daemon_set_pods_volume_delays_no_drain,
        a_volume_that_stays_attached_is_named_at_the_end,
        two_nodes_of_one_zone_are_never_drained_at_once,
        wait_ready_names_controllers_that_it_cannot_count,
        once_tries_each_pod_once_and_waits_for_no_budget,
        a_pending_replacement_is_reported_with_the_schedulers_words,
        each_node_waits_for_its_own_replacements,
        wait_ready_ends_when_the_workload_is_deleted,
        a_budget_that_lets_pods_go_is_waited_for_and_not_bypassed;
}

#[test]
fn a_switchover_is_waited_for_and_told() {
    by_maintenance(operators::live::a_switchover_is_waited_for_and_told);
}

#[test]
fn each_scene_has_its_verdict_and_its_end() {
    if is_thorough() {
        by_maintenance(operators::each_scene_has_its_verdict_and_its_end);
    }
}
