//! `kubectl nodelife drain`. Each test ends with [`bench::Bench::check`], which reads off the API
//! server's audit log that no promise was broken.
//!
//! What `kubectl drain` v1.36 gets wrong, and the test that we do not:
//!
//! | kubectl | here |
//! |---|---|
//! | goes on when the cordon failed | `choices::nothing_is_evicted_when_the_cordon_is_not_allowed` |
//! | never lists again: pods bound late stay | `defects::a_pod_that_is_bound_late_goes_too` |
//! | evicts the replacement on another node | `defects::a_replacement_on_another_node_is_never_evicted` |
//! | hangs in `--dry-run=server`, also with `--disable-eviction`, and plans too well | `refused::a_dry_run_ends_at_once_with_a_truthful_plan_and_writes_nothing` |
//! | ends its wait at the first 5xx | `faults::nothing_is_evicted_twice_though_three_of_ten_answers_are_faults` |
//! | evicts orphans without `--force` | `defects::an_orphan_of_a_controller_that_is_gone_needs_force` |
//! | evicts DaemonSet pods of other API groups | `defects::daemon_sets_of_other_api_groups_are_left_alone` |
//! | names no namespaces, in no order | `refused::every_refusal_is_told_at_once_and_nothing_is_written` |
//! | counts `--timeout` for each node | `defects::the_time_of_the_command_holds_and_a_blocked_drain_ends_with_5` |
//! | ends at Ctrl-C without a word | `defects::ctrl_c_stops_evicting_and_a_second_run_goes_on` |
//! | tries again in lockstep, every 5 s | `budgeted::a_node_is_emptied_and_its_budget_never_falls_below_what_it_needs` |
//! | ends with 1 whatever went wrong | the statuses 4, 5, 6, 7 and 130 in `refused`, `defects`, `choices` |
//! | repeats its line and leaves the budget out | `defects::a_block_is_explained_once_and_ends_as_soon_as_the_budget_allows` |
//! | never ends in a terminating namespace | `defects::a_pod_that_vanishes_in_a_terminating_namespace_is_gone` |
//!
//! What a drain promises beyond that:
//!
//! | promise | test |
//! |---|---|
//! | a block is explained, once | `defects::a_block_is_explained_once_and_ends_as_soon_as_the_budget_allows` |
//! | all refusals at once, before the cordon | `refused::every_refusal_is_told_at_once_and_nothing_is_written` |
//! | the UID in each eviction, one accepted for a pod at most | [`bench::Bench::check`], in every test |
//! | no more evictions than a budget allows, hardly any refused | `budgeted::a_node_is_emptied_and_its_budget_never_falls_below_what_it_needs` |
//! | a workload without a budget keeps most of its pods | `budgeted::a_deployment_without_a_budget_keeps_three_quarters` |
//! | the status tells what went wrong, documents tell all | `choices`, `defects` |
//! | `--timeout` holds when nobody answers | `faults::the_time_of_the_command_holds_when_the_api_server_falls_silent` |
//! | Ctrl-C, kill -9 and a second run | `defects::ctrl_c_stops_evicting_and_a_second_run_goes_on`, `lock::a_second_run_goes_on_where_a_killed_one_was` |
//! | order by priority | `choices::the_higher_priority_goes_when_the_lower_is_gone` |
//! | two drains of one node do not fight | `lock` |
//! | events, and a screen on a terminal alone | `seen` |
//! | the API server may fail and restart | `faults` |
//!
//! The arithmetic of budgets is held against the disruption controller's in `oracle_budget`.

mod bench;
mod budgeted;
mod choices;
mod chosen;
mod defects;
mod faults;
mod flags;
mod foreseen;
mod lock;
mod refused;
mod seen;
mod undone;
mod waited;
