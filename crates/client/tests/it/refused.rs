//! The tests that transaction pooling does not allow, by the reason. None is here for a defect of ours.

/// A reason, and the tests that it is about.
pub(crate) type Refusals = [(&'static str, &'static [&'static str])];

/// With any PgBouncer.
pub(crate) const ALWAYS: &Refusals = &[
    (
        "transaction pooling keeps no LISTEN",
        &[
            "blocking::a_listener_waits_as_long_as_it_is_told_to",
            "blocking::what_has_no_call_of_its_own_is_run_by_wait",
            "listening::a_dropped_call_of_listen_takes_nothing_back",
            "listening::a_dropped_wait_loses_no_notification",
            "listening::a_listener_hears_what_is_notified_in_order",
            "listening::a_listener_takes_no_connection_of_the_pool_and_outlives_its_client",
            "listening::a_listener_that_is_dropped_says_goodbye",
            "listening::a_lost_connection_comes_back_with_all_channels_and_tells_of_the_gap",
            "listening::a_notification_of_a_transaction_comes_when_it_commits",
            "listening::a_session_hears_what_it_listens_to_until_it_is_over",
            "listening::an_answer_is_not_held_up_by_a_full_buffer_and_what_is_dropped_is_told_of",
            "listening::channels_are_listened_to_again_in_one_trip",
            "listening::names_of_channels_are_taken_letter_by_letter",
            "listening::what_is_not_read_stays_with_the_server_and_nothing_is_lost",
            "listening::what_is_unlistened_is_heard_no_more",
            "listening::what_time_does_not_mend_is_said_once_and_tried_on",
        ],
    ),
    ("transaction pooling keeps no state of a session", &["sessions::a_session_keeps_its_state"]),
    (
        "it looks at the server's connections, which are the pooler's",
        &[
            "blocking::a_closed_client_has_left_the_server",
            "pool::a_client_that_is_dropped_closes_what_it_has",
            "pool::idle_connections_are_closed_and_the_least_are_kept",
            "pool::sessions_beside_one_another_have_connections_of_their_own",
            "pool::there_are_never_more_connections_than_the_limit",
            "row_streams::a_dropped_stream_of_a_client_gives_its_connection_back_or_up",
            "queries::the_last_clone_takes_the_connection_with_it_when_all_is_answered",
            "sessions::a_dropped_session_runs_what_was_submitted_and_closes",
        ],
    ),
    (
        "it ends an idle connection of the server, which is another client's by then",
        &[
            "auto_prepare::a_connection_that_is_lost_leaves_no_statement_behind_for_others",
            "outcomes::a_session_that_is_ended_says_so_at_the_next_call",
            "outcomes::an_idle_connection_that_is_ended_is_replaced_by_the_next_call",
            "pool::a_broken_session_gives_its_place_back",
            "repeatable::a_reply_that_is_dropped_sends_nothing_again",
            "spans::what_happens_to_connections_is_told",
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
        ],
    ),
    (
        "PgBouncer answers logins itself, in words of its own",
        &[
            "connecting::a_wrong_password_is_the_servers_word",
            "connecting::an_unknown_database_is_the_servers_word",
            "pool::a_wrong_password_fails_at_once_and_not_after_a_wait",
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

/// With PgBouncer before 1.21, which knows nothing of prepared statements.
pub(crate) const BEFORE_NAMES: &Refusals = &[
    (
        "PgBouncer before 1.21 gives the server away while a segment is open behind an answered one",
        &[
            "pipelines::a_hundred_thousand_statements_are_read_as_they_come",
            "pipelines::pipelines_of_many_tasks_stay_whole",
            "pipelines::replies_may_be_read_after_the_finish",
            "pipelines::the_end_of_a_long_pipeline_is_never_held_back",
            "queries::many_tasks_on_many_threads_each_get_their_own_replies",
        ],
    ),
    (
        "PgBouncer 1.18 ends itself when the connection of a cancel is closed early",
        &[
            "cancel_storm::a_thousand_cancels_at_random_moments_take_no_neighbour_along",
            "repeatable::one_of_a_shared_sync_point_is_not_cancelled_while_others_wait",
            "repeatable::reads_that_are_late_together_are_cancelled_together",
            CANCELLING,
        ],
    ),
    (
        "a statement is unknown in the next transaction",
        &["batches::in_a_transaction_a_batch_is_part_of_it"],
    ),
    (
        "PgBouncer 1.18 takes no newer protocol, and none of these options",
        &[
            "connecting::a_newer_protocol_falls_back_to_what_the_server_speaks",
            "parameters::a_moment_is_the_same_in_and_outside_of_a_transaction_in_any_time_zone",
        ],
    ),
];

/// All tests of that file.
const CANCELLING: &str = "cancelling::";

/// With PgBouncer from 1.21 on, which prepares in the place of its clients.
pub(crate) const SINCE_NAMES: &Refusals = &[
    (
        "PgBouncer prepares a text once for all, so a stale plan stays",
        &[
            "auto_prepare::a_table_that_changes_is_seen",
            "metrics::what_is_healed_is_counted",
            "prepared::a_statement_heals_when_its_table_has_changed",
            "repeatable::stale_plans_are_healed_for_each",
        ],
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
        &["auto_prepare::nobody_is_failed_by_a_parse_that_was_taken_back"],
    ),
    (
        "PgBouncer loses the sync point that follows a COPY before that was answered",
        &[
            "copy::a_copy_that_is_dropped_or_aborted_leaves_nothing_and_a_usable_connection",
            "copy::statements_that_are_submitted_meanwhile_come_after_the_copy",
        ],
    ),
];
