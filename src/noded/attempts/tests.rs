//! Tests of attempts under cancels, restarts and repeated orders.

use super::super::{launch_for_tests as launch, site};
use super::*;

fn attempts() -> (Attempts, Poller, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder::attempts(folder.path())).unwrap();
    std::fs::create_dir(folder::tombstones(folder.path())).unwrap();
    let site = Site {
        state: folder.path().to_path_buf(),
        ..site::tests::site(0, false)
    };
    (Attempts::hollow(site), Poller::new().unwrap(), folder)
}

/// A launch of a hollow job that runs for a minute.
fn launch_of_a_minute() -> Launch {
    Launch {
        walltime: Some(Span::seconds(60)),
        ..launch()
    }
}

#[test]
fn an_unknown_attempt_that_was_cancelled_never_starts() {
    let (mut attempts, mut poller, folder) = attempts();
    let name = AttemptName::of(&launch_of_a_minute());
    attempts.cancel(name, Cancel::default());
    attempts.start(&launch_of_a_minute(), &mut poller);
    let cancelled = AttemptStatus::Ended(AttemptOutcome::new(How::Cancelled));
    assert_eq!(attempts.statuses(), [(JobId::job(1), 1, 0, cancelled)]);
    assert!(folder::read_tombstone(folder.path(), name).is_some());
    attempts.confirm(name);
    assert!(attempts.statuses().is_empty());
    assert!(folder::read_tombstone(folder.path(), name).is_none());
}

#[test]
fn a_tombstone_survives_a_restart() {
    let (mut first, mut poller, folder) = attempts();
    first.cancel(AttemptName::of(&launch_of_a_minute()), Cancel::default());
    let site = Site {
        state: folder.path().to_path_buf(),
        ..site::tests::site(0, false)
    };
    let mut second = Attempts::hollow(site);
    second.adopt(&mut poller).unwrap();
    assert_eq!(second.statuses(), first.statuses());
}

#[test]
fn an_attempt_with_an_unreadable_record_is_kept_and_checked_again() {
    let (mut attempts, mut poller, folder) = attempts();
    let name = AttemptName::of(&launch_of_a_minute());
    let place = folder::attempts(folder.path()).join(name.to_string());
    std::fs::create_dir(&place).unwrap();
    std::fs::write(
        place.join("record"),
        format!("{:4096}", r#"{"version":65000}"#),
    )
    .unwrap();
    attempts.adopt(&mut poller).unwrap();
    attempts.check_all(&mut poller);
    assert_eq!(
        attempts.statuses(),
        [(JobId::job(1), 1, 0, AttemptStatus::Starting)]
    );
    std::fs::write(place.join("record"), " ".repeat(4096)).unwrap();
    attempts.check_all(&mut poller);
    assert_eq!(
        attempts.statuses(),
        [(
            JobId::job(1),
            1,
            0,
            AttemptStatus::Ended(AttemptOutcome::new(How::ShepherdLost))
        )]
    );
}

#[test]
fn an_attempt_below_the_highest_is_refused_and_a_repeated_start_is_ignored() {
    let (mut attempts, mut poller, _folder) = attempts();
    attempts.start(
        &Launch {
            attempt: 3,
            ..launch_of_a_minute()
        },
        &mut poller,
    );
    attempts.start(
        &Launch {
            attempt: 2,
            ..launch_of_a_minute()
        },
        &mut poller,
    );
    attempts.cancel(
        AttemptName {
            job: JobId::job(1),
            attempt: 1,
            task: 0,
        },
        Cancel::default(),
    );
    attempts.start(
        &Launch {
            attempt: 3,
            ..launch_of_a_minute()
        },
        &mut poller,
    );
    assert_eq!(
        attempts.statuses(),
        [(JobId::job(1), 3, 0, AttemptStatus::Running(1))]
    );
    attempts.confirm(AttemptName {
        job: JobId::job(1),
        attempt: 3,
        task: 0,
    });
    assert_eq!(attempts.statuses().len(), 1, "a running attempt is kept");
}

#[test]
fn a_job_id_that_cannot_be_part_of_a_file_name_is_refused() {
    for id in ["", "../x", "a/b", ".", "a\0"] {
        assert!(
            check_launch(&Launch {
                full_id: id.into(),
                ..launch()
            })
            .is_err(),
            "{id:?}"
        );
    }
    assert!(check_launch(&launch()).is_ok());
}
