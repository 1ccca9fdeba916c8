//! Notices of the server.

use onetrip::{Notice, Notices};

use crate::support::*;

fn raise(level: &str, text: &str) -> String {
    format!("do $$ begin raise {level} '{text}' using detail = 'more', hint = 'do'; end $$")
}

async fn next(notices: &mut Notices) -> Notice {
    notices.next().await.unwrap()
}

#[test]
fn notices_of_all_connections_come_with_their_parts() {
    run(async {
        let client = client().await;
        let mut notices = client.notices();
        client.execute(&raise("notice", "one"), &[]).await.unwrap();
        let session = client.session().await.unwrap();
        session.execute(&raise("warning", "two"), &[]).await.unwrap();
        let (one, two) = (next(&mut notices).await, next(&mut notices).await);
        assert_eq!((one.severity(), one.code(), one.message()), ("NOTICE", "00000", "one"));
        assert_eq!((two.severity(), two.code(), two.message()), ("WARNING", "01000", "two"));
        assert_eq!((one.detail(), one.hint()), (Some("more"), Some("do")));
        assert!(one.where_().unwrap().contains("PL/pgSQL"), "{:?}", one.where_());
        assert_eq!(one.server().routine.as_deref(), Some("exec_stmt_raise"));
    });
}

#[test]
fn a_notice_shows_no_text_unless_asked() {
    run(async {
        let client = client().await;
        let mut notices = client.notices();
        client.execute(&raise("notice", "secret"), &[]).await.unwrap();
        let notice = next(&mut notices).await;
        assert_eq!(notice.to_string(), "NOTICE (SQLSTATE 00000)");
        assert_eq!(format!("{notice:?}"), "Notice(NOTICE (SQLSTATE 00000))");
    });
}

#[test]
fn the_oldest_notices_go_and_are_counted() {
    run(async {
        let client = client().await;
        let (mut slow, mut late) = (client.notices(), None);
        for number in 1..=300 {
            if number == 300 {
                late = Some(client.notices());
            }
            client.execute(&raise("notice", &number.to_string()), &[]).await.unwrap();
        }
        assert_eq!((slow.missed(), slow.missed()), (44, 44));
        assert_eq!(next(&mut slow).await.message(), "45");
        let mut late = late.unwrap();
        assert_eq!((late.missed(), next(&mut late).await.message()), (0, "300"));
    });
}

#[test]
fn notices_end_with_the_client() {
    run(async {
        let client = client().await;
        let mut notices = client.notices();
        drop(client);
        assert_eq!(notices.next().await, None);
    });
}
