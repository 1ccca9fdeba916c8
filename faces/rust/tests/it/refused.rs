//! The tests that transaction pooling does not allow, by reason. None is here for a defect of ours.

/// A reason, and its tests.
pub(crate) type Refusals = [(&'static str, &'static [&'static str])];

/// With any PgBouncer.
pub(crate) const ALWAYS: &Refusals = &[
    (
        "transaction pooling keeps no LISTEN",
        &[
            "blocking::a_listener_waits_as_long_as_it_is_told_to",
            "blocking::what_has_no_call_of_its_own_is_run_by_wait",
            "itself::the_listeners_of_a_client_that_is_closed_end_with_an_error",
            "listening::a_dropped_call_of_listen_takes_nothing_back",
            "listening::a_dropped_wait_loses_no_notification",
            "listening::a_listener_hears_what_is_notified_in_order",
            "listening::a_listener_takes_no_connection_of_the_pool_and_outlives_its_client",
            "listening::a_listener_that_is_dropped_says_goodbye",
            "listening::a_lost_connection_comes_back_with_all_channels_and_tells_of_the_gap",
            "listening::a_notification_of_a_transaction_comes_when_it_commits",
            "listening::a_session_hears_what_it_listens_to_until_it_is_over",
            "listening::a_session_that_does_not_read_its_notifications_is_told_of_the_gap",
            "listening::notifications_that_nobody_asked_for_are_counted",
            "listening::what_comes_between_replies_belongs_to_none_of_them",
            "listening::an_answer_is_not_held_up_by_a_full_buffer_and_what_is_dropped_is_told_of",
            "listening::channels_are_listened_to_again_in_one_trip",
            "listening::names_of_channels_are_taken_letter_by_letter",
            "listening::what_is_not_read_stays_with_the_server_and_nothing_is_lost",
            "listening::what_is_unlistened_is_heard_no_more",
            "listening::what_time_does_not_mend_is_said_once_and_tried_on",
        ],
    ),
    (
        "transaction pooling keeps no state of a session: SET, temporary objects, PREPARE",
        &[
            "auto_prepare::a_path_and_a_role_that_change_are_seen",
            "copy::where_begin_is_refused_no_copy_runs",
            "exact::what_is_exact_means_the_same_under_every_cast",
            "large_values::what_is_in_memory_does_not_grow_with_what_passes",
            "migrations::a_text_means_what_its_names_mean_in_the_path_of_its_session",
            "migrations::behind_a_session_with_another_path_the_usual_names_are_used_again",
            "migrations::two_sessions_with_their_own_paths_have_their_own_meanings",
            "left_behind::a_session_that_deallocates_all_is_reset_without_a_failure",
            "left_behind::a_statement_that_others_prepared_finds_the_temporary_table_of_a_session",
            "left_behind::a_transaction_behind_a_reset_that_failed_has_not_run",
            "left_behind::no_setting_of_its_own_keeps_a_session_from_being_reset",
            "left_behind::nobody_works_in_a_session_whose_reset_was_stopped_by_its_own_timeout",
            "left_behind::only_what_is_known_to_leave_nothing_is_spared_the_reset",
            "left_behind::the_first_change_of_a_session_counts_where_its_connection_still_owed_a_reset",
            "left_behind::what_a_function_left_in_a_session_is_gone_for_the_next_user",
            "left_behind::what_a_function_left_is_gone_whatever_the_connection_was_lent_for",
            "left_behind::what_can_not_be_guarded_waits_until_the_session_is_reset",
            "left_behind::what_was_sent_behind_a_reset_that_failed_runs_behind_the_one_that_succeeds",
            "pool::a_name_that_a_session_prepared_is_free_for_the_next",
            "pool::nothing_that_a_session_left_reaches_its_next_user",
            "sessions::a_session_keeps_its_state",
            "types_learned::a_value_finds_its_learned_type",
            "types_learned::an_altered_type_is_learned_anew_once_it_is_forgotten",
            "types_learned::depth_costs_no_further_trip",
            "types_learned::derived_values_of_learned_types_go_both_ways",
            "types_learned::enums_and_domains_are_read_as_text",
            "types_learned::many_threads_share_what_was_learned",
            "types_learned::multiranges_made_by_users_are_learned",
            "types_learned::one_trip_learns_a_type_with_all_that_it_is_made_of",
            "types_text::intervals_are_read_as_the_server_reads_them",
            "types_text::numerics_are_read_as_the_server_reads_them",
        ],
    ),
    (
        "behind a pooler the reset of a connection that somebody had to himself is awaited",
        &[
            "trips::a_chatty_transaction_is_a_trip_for_each_statement_and_one_for_commit",
            "trips::a_run_without_conflicts_costs_what_its_transaction_costs",
            "trips::a_transaction_of_one_statement_is_one_trip",
        ],
    ),
    (
        "it looks at the server's connections, which are the pooler's",
        &[
            "strangers::a_session_whose_cancel_went_astray_gives_its_connection_up",
            "strangers::the_lifetime_of_a_connection_ends_that_is_busy_with_others_in_line",
            "blocking::a_closed_client_has_left_the_server",
            "itself::listeners_that_are_dropped_leave_the_server",
            "pitfalls::a_connection_that_can_not_write_holds_no_other_up",
            "pool::a_client_that_is_dropped_closes_what_it_has",
            "pool::a_session_that_ends_leaves_its_connection_to_the_next",
            "pool::a_session_that_was_changed_is_reset_for_the_next_without_a_trip",
            "pool::an_open_or_failed_transaction_is_undone_for_the_next",
            "pool::idle_connections_are_closed_and_the_least_are_kept",
            "pool::sessions_beside_one_another_have_connections_of_their_own",
            "pool::there_are_never_more_connections_than_the_limit",
            "row_streams::a_dropped_stream_of_a_client_gives_its_connection_back_or_up",
            "run::a_run_that_is_dropped_rolls_back",
            "queries::the_last_clone_takes_the_connection_with_it_when_all_is_answered",
            "sessions::a_dropped_session_runs_what_was_submitted_and_closes",
        ],
    ),
    (
        "it ends an idle connection of the server, which is another client's by then",
        &[
            "auto_prepare::a_connection_that_is_lost_leaves_no_statement_behind_for_others",
            "batches::an_atomic_batch_that_loses_its_connection_before_its_first_row_ends",
            "outcomes::a_session_that_is_ended_says_so_at_the_next_call",
            "outcomes::an_idle_connection_that_is_ended_is_replaced_by_the_next_call",
            "pool::a_broken_session_gives_its_place_back",
            "repeatable::a_reply_that_is_dropped_sends_nothing_again",
            "spans::what_happens_to_connections_is_told",
            "transactions::a_transaction_that_lost_its_connection_before_it_sent_anything_is_not_committed",
        ],
    ),
    (
        "it counts what the server has prepared, for other clients too",
        &[
            "auto_prepare::a_first_use_that_is_refused_has_prepared_nothing",
            "auto_prepare::a_long_pipeline_prepares_its_statement_once",
            "auto_prepare::a_rolled_back_savepoint_takes_no_statement_along",
            "auto_prepare::a_segment_that_is_skipped_takes_its_parse_along_and_nobody_else",
            "auto_prepare::a_statement_can_be_left_out",
            "auto_prepare::a_statement_that_was_parsed_and_failed_is_prepared",
            "auto_prepare::a_text_is_prepared_at_its_fifth_use",
            "auto_prepare::everyone_behind_the_first_may_use_it_before_the_server_has_answered",
            "auto_prepare::the_least_recently_used_statement_is_closed",
            "auto_prepare::the_threshold_is_a_setting",
            "auto_prepare::uses_are_counted_over_all_connections",
            "cancellation::dropped_futures_of_prepare_leave_nothing_behind",
            "pool::a_reset_keeps_what_was_prepared",
            "prepared::a_discard_that_fails_loses_nothing",
            "prepared::a_dropped_statement_is_closed_on_the_server",
            "prepared::many_statements_are_prepared_and_closed",
            "prepared::many_statements_that_are_dropped_at_once_hold_nobody_up",
            "prepared::statements_that_are_dropped_while_the_queue_is_full_are_closed_later",
        ],
    ),
    (
        "it has the server forget its statements, behind the pooler's back",
        &[
            "prepared::a_loss_that_was_seen_is_made_good_inside_of_a_transaction_too",
            "prepared::a_statement_does_not_heal_as_the_first_of_a_transaction",
            "prepared::a_statement_does_not_heal_inside_of_a_pipeline",
            "prepared::a_statement_does_not_heal_inside_of_a_transaction",
            "prepared::a_statement_heals_after_the_server_lost_it",
            "transactions::a_statement_never_heals_into_a_transaction_that_was_begun_behind_it",
        ],
    ),
    (
        "PgBouncer gives the server away at the answer to a COPY that failed, within what is still sent",
        &[
            "copy::a_copy_that_is_dropped_or_aborted_leaves_nothing_and_a_usable_connection",
            "copy::an_error_of_the_server_is_said_by_the_next_send_or_finish",
        ],
    ),
    (
        "PgBouncer answers logins itself, in words of its own, and a direct TLS handshake not at all",
        &[
            "connecting::a_wrong_password_is_the_servers_word",
            "connecting::an_unknown_database_is_the_servers_word",
            "pool::a_wrong_password_fails_at_once_and_not_after_a_wait",
            "tls::a_server_that_can_not_begin_with_tls_is_told_of",
        ],
    ),
    (
        "PgBouncer refuses startup options",
        &[
            "begin::what_is_not_said_is_left_to_the_defaults_of_the_server",
            "connecting::pairs_of_keywords_and_values_work_like_a_url",
        ],
    ),
];

/// With PgBouncer before 1.21, which does not support prepared statements, and with the settings
/// that it requires (`prepare_threshold=0&one_segment=1&cancels_max=0`). A name that ends like a
/// path stands for a whole file.
pub(crate) const BEFORE_NAMES: &Refusals = &[
    (
        "PgBouncer before 1.21: a name that was prepared is unknown in the next transaction",
        &[
            "auto_prepare::",
            "cancellation::a_first_use_may_be_dropped_at_any_stage",
            "cancellation::dropped_replies_leave_their_neighbours_alone",
            "cancellation::dropped_replies_leave_their_neighbours_alone_across_threads",
            "cancellation::dropped_replies_leave_their_neighbours_alone_in_a_narrow_window",
            "metrics::uses_of_prepared_statements_are_hits_but_for_the_first",
            "metrics::what_is_healed_is_counted",
            "pipelines::a_hundred_thousand_statements_are_read_as_they_come",
            "pool::a_clean_session_is_not_reset_and_prepared_statements_stay",
            "prepared::",
            "result_limit::statements_that_are_prepared_survive_a_result_that_is_too_large",
            "simple::a_script_between_other_statements_takes_nothing_of_theirs",
            "tagged::every_reply_of_any_mixture_names_its_own_request",
            "trips::a_prepared_statement_is_one_trip_to_prepare_and_one_to_use",
        ],
    ),
    (
        "PgBouncer before 1.21: with one_segment=1 nothing is sent behind a sync point",
        &[
            "begin::a_last_statement_whose_answer_is_lost_is_unknown",
            "outcomes::a_pipeline_on_a_stalled_line_ends_by_its_deadline",
            "outcomes::a_server_process_that_is_ended_with_a_thousand_in_flight",
            "outcomes::a_stalled_line_ends_each_request_by_its_deadline",
            "limits::a_deadline_that_passes_leaves_later_replies_in_their_places",
            "repeatable::",
            "trips::a_dropped_savepoint_is_undone_in_the_trip_of_what_comes_next",
            "trips::a_dropped_transaction_rolls_back_in_the_trip_of_the_next_statement",
            "trips::begin_rides_along_with_a_pipeline",
            "trips::calls_made_before_the_first_is_awaited_share_a_trip",
            "trips::commit_leaves_with_the_statements_in_front_of_it",
            "trips::savepoints_cost_no_trip",
            "types_looked_up::a_look_up_costs_one_trip_once",
        ],
    ),
    (
        "PgBouncer before 1.21: one segment leaves at a time",
        &["neighbours::twenty_quick_statements_of_one_tick_make_one_trip_on_one_connection"],
    ),
    (
        "PgBouncer 1.18 ends itself when the connection of a cancel is closed early, so none is sent",
        &[
            "batches::the_server_is_asked_to_stop_a_dropped_batch_if_the_client_wants_that",
            "cancel_storm::",
            "cancelling::",
            "locks::a_holder_of_a_lock_reads_beside_its_transaction_with_two_connections",
            "locks::a_holder_of_a_lock_sends_pipelines_and_blocks_beside_its_transaction",
            "locks::what_was_taken_away_keeps_its_deadline",
            "locks::what_waits_for_a_lock_lets_those_behind_it_go_on_and_runs_once",
            "pitfalls::late_statements_neither_use_up_a_pool_nor_its_connections",
            "row_streams::the_rest_of_a_long_stream_is_cancelled_where_nobody_is_harmed",
        ],
    ),
    (
        "PgBouncer 1.18 takes no newer protocol, no options, and no login in pieces; it knows no IntervalStyle",
        &[
            "connecting::a_newer_protocol_falls_back_to_what_the_server_speaks",
            "copy::both_directions_are_right_one_byte_at_a_time",
            "faults::all_is_right_one_byte_at_a_time",
            "migrations::a_moment_is_stored_as_the_type_that_its_column_has_now",
            "parameters::a_moment_is_the_same_in_and_outside_of_a_transaction_in_any_time_zone",
            "row_streams::all_is_right_one_byte_at_a_time",
            "types_text::intervals_are_written_as_the_server_writes_them_in_both_styles",
        ],
    ),
];

/// With PgBouncer from 1.21 on, which prepares statements itself for its clients.
pub(crate) const SINCE_NAMES: &Refusals = &[
    (
        "PgBouncer answers the first Parse of a connection by a stale plan, which one error shows",
        &["auto_prepare::a_table_that_changes_is_seen", "metrics::what_is_healed_is_counted"],
    ),
    (
        "PgBouncer takes a text that the server could not parse for prepared",
        &[
            "auto_prepare::nobody_is_failed_by_anothers_parse",
            "repeatable::nobody_is_failed_by_anothers_parse",
        ],
    ),
    (
        "PgBouncer ends a connection that names what it does not know",
        &[
            "tagged::every_reply_of_any_mixture_names_its_own_request",
            "auto_prepare::nobody_is_failed_by_a_parse_that_was_taken_back",
            "cancel_storm::a_thousand_cancels_at_random_moments_take_no_neighbour_along",
        ],
    ),
    (
        "PgBouncer forgets what follows a COPY before that was answered",
        &["copy::statements_that_are_submitted_meanwhile_come_after_the_copy"],
    ),
];
