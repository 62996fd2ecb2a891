//! Tests of the explanations of jobs in all states.

use super::*;
use crate::cli::example::{self, finished, queued, running, share};
use crate::model::job::dependency::{
    DependencyCondition, DependencyKind, DependencyView, Edge, UnmetDependencies,
};
use crate::model::job::state::Holds;
use crate::model::job::{AttemptOutcome, How, Usage};
use crate::model::reason::{self, CycleStage, Reason};
use crate::model::report::outlook::{
    BlockingLimit, Horizon, Occupant, Prospect, QueueRank, Rejection, Survey,
};
use crate::model::time::Span;
use steps::StageVerdict;

pub fn explanation(objections: Vec<Reason>) -> Explanation {
    let at = Time(1_700_003_600_000);
    Explanation {
        job: JobId::job(1),
        reason: objections.first().cloned(),
        objections,
        barriers: vec![],
        rank: Some(QueueRank {
            before: Some(2),
            waiting: 5,
            cluster: None,
        }),
        survey: None,
        shorter: None,
        prospect: Prospect::Starts {
            at,
            end: Time(at.0 + 60_000),
            nodes: vec!["n1".into()],
        },
        horizon: Horizon {
            from: example::SUBMITTED,
            until: at,
            cycles: 2,
            is_whole: true,
        },
        ahead: 0,
        occupants: vec![Occupant {
            job: JobId::job(7),
            end: at,
            nodes: vec!["n1".into()],
        }],
        more: 0,
        overtakers: vec![],
        way: None,
        fair_share: None,
        range: None,
        run_time: None,
    }
}

fn found(record: JobRecord, explanation: Option<Explanation>) -> ExplainedJob {
    ExplainedJob {
        record,
        events: vec![],
        explanation: explanation.map(Box::new),
        closed: vec![],
    }
}

fn with_view<T>(found: &ExplainedJob, look: impl FnOnce(JobView) -> T) -> T {
    look(JobView {
        server: &example::server(),
        now: example::NOW,
        found,
    })
}

fn text(found: &ExplainedJob) -> String {
    with_view(found, |view| view.text(false))
}

fn busy() -> Reason {
    let text = |text: &str| text.to_string();
    let (requested, available, total) = (text("8"), text("1"), text("8"));
    Reason::Busy {
        resource: text("ncpus"),
        requested,
        available,
        total,
        until: None,
        pooled: false,
    }
}

fn verdicts(found: &ExplainedJob) -> Vec<StageVerdict> {
    with_view(found, |view| {
        view.steps(&view.obstacles())
            .iter()
            .map(|step| step.verdict)
            .collect()
    })
}

#[test]
fn stages_after_the_failed_stage_are_not_reached() {
    use StageVerdict::{Failed, NotReached, Off, Passed};
    let waits = found(queued(1, "a", "ncpus=8"), Some(explanation(vec![busy()])));
    let expected = [
        Passed, Passed, Passed, Passed, Failed, NotReached, NotReached, Off, NotReached,
    ];
    assert_eq!(verdicts(&waits), expected);
    let text_of_job = text(&waits);
    for part in [
        "  Not enough ncpus free: 8 requested, 1 of 8 free.  (match: amount.ncpus)\n",
        "  Sooner if:  job 7.head ends, at the latest at ",
        "  match      FAILED       amount.ncpus\n  allocate   not reached\n",
        "  priority   passed       2 of 5 waiting jobs are ahead of it\n",
        "  Waits for:  job 7.head on n1 (the job ends by ",
    ] {
        assert!(text_of_job.contains(part), "{part}: {text_of_job}");
    }
    let free = found(queued(1, "a", "ncpus=8"), Some(explanation(vec![])));
    assert_eq!(
        verdicts(&free),
        [
            Passed, Passed, Passed, Passed, Passed, Passed, Passed, Off, NotReached
        ]
    );
    assert!(text(&free).contains("\n\n  Nothing prevents the start.\n  Predicted:  starts at "));
    let new = found(queued(1, "a", "ncpus=8"), None);
    assert_eq!(verdicts(&new)[..2], [Passed, NotReached]);
    assert!(text(&new).contains("has not considered the job yet"));
}

#[test]
fn the_verbose_text_lists_the_obstacles_at_all_stages() {
    let both = found(
        queued(1, "a", "ncpus=8"),
        Some(explanation(vec![Reason::QueueStopped, busy()])),
    );
    let text_of_job = with_view(&both, |view| view.text(true));
    assert!(
        text_of_job
            .contains("  Obstacles:  2\n    admission  queue_stopped: Queue workq is stopped"),
        "{text_of_job}"
    );
    assert!(
        text_of_job.contains("    match      amount.ncpus: Not enough ncpus"),
        "{text_of_job}"
    );
    assert!(!text(&both).contains("amount.ncpus"));
    let data = with_view(&both, |view| view.data());
    assert_eq!(
        (&data["reason"]["code"], &data["objections"][1]["code"]),
        (&"queue_stopped".into(), &"amount.ncpus".into())
    );
    assert_eq!(
        (&data["stages"][1]["verdict"], &data["stages"][4]["verdict"]),
        (&"failed".into(), &"not_reached".into())
    );
}

#[test]
fn a_held_job_shows_who_may_release_it_and_when_it_would_start() {
    let mut record = queued(1, "a", "ncpus=8");
    (record.job.life.state, record.job.life.holds) = (JobState::Held, Holds::parse("uos").unwrap());
    record.job.life.failed_starts = 3;
    let held = found(record, Some(explanation(vec![busy()])));
    let codes = with_view(&held, |view| {
        view.obstacles()
            .into_iter()
            .map(|obstacle| obstacle.code)
            .collect::<Vec<_>>()
    });
    assert_eq!(
        codes,
        ["held.user", "held.operator", "held.system", "amount.ncpus"]
    );
    let text_of_job = text(&held);
    assert!(
        text_of_job.contains("The job is held by its owner; 3 starts failed.  (state: held.user)"),
        "{text_of_job}"
    );
    assert!(
        text_of_job.contains("Starts if:  the owner releases the job: qrls 1.head\n"),
        "{text_of_job}"
    );
    assert!(
        text_of_job.contains("Predicted:  if released now, it starts at "),
        "{text_of_job}"
    );
    assert_eq!(
        verdicts(&held)[..2],
        [StageVerdict::Failed, StageVerdict::NotReached]
    );
}

#[test]
fn a_dependent_job_shows_the_jobs_that_it_waits_for() {
    let mut record = queued(2, "a", "");
    (record.job.life.state, record.job.life.bars) = (
        JobState::Held,
        UnmetDependencies {
            unmet: 1,
            ..UnmetDependencies::default()
        },
    );
    let edge = Edge {
        kind: DependencyKind::After(DependencyCondition::EndedOk),
        job: JobId::job(1),
    };
    record.links = vec![DependencyView {
        edge,
        state: Some(JobState::Running),
    }];
    let held = found(record, None);
    assert!(text(&held).contains(
        "The job waits for other jobs: afterok:1.head, which is running.  (state: dep_wait)"
    ));
    let depends = with_view(&held, |view| {
        view.data()["reason"]["numbers"]["depends_on"].clone()
    });
    assert_eq!(
        depends,
        serde_json::json!([{"kind": "afterok", "job": "1.head", "state": "R"}])
    );
}

#[test]
fn a_begin_time_and_its_deferral_are_one_obstacle() {
    let mut record = queued(1, "a", "");
    record.job.life.state = JobState::Waiting;
    std::sync::Arc::make_mut(&mut record.job.spec).begin = Some(Wall(1_700_009_000));
    let waits = found(
        record,
        Some(explanation(vec![Reason::Deferred {
            until: Time(1_700_009_000_000),
        }])),
    );
    let obstacles = with_view(&waits, |view| view.obstacles());
    assert_eq!(
        (obstacles.len(), obstacles[0].code.as_str()),
        (1, "begin_time")
    );
    assert_eq!(obstacles[0].numbers["at"], 1_700_009_000);
}

#[test]
fn a_suggested_walltime_leaves_time_to_enter_it() {
    let holder = JobId::job(4);
    let waits = Reason::WouldDelayBooking {
        holder,
        at: Time(1_700_003_600_000),
    };
    let shorter = |seconds| {
        let shorter = Some(Span::seconds(seconds));
        let waits = found(
            queued(1, "a", ""),
            Some(Explanation {
                shorter,
                ..explanation(vec![waits.clone()])
            }),
        );
        with_view(&waits, |view| view.obstacles()[0].help[0].clone())
    };
    let expected =
        "its walltime is at most 00:58:00; then it starts now: qalter -l walltime=00:58:00 1.head";
    assert_eq!(shorter(3599), expected);
    assert!(shorter(90).contains("at most 00:01:30;"), "{}", shorter(90));
    let data = with_view(
        &found(queued(1, "a", ""), Some(explanation(vec![waits.clone()]))),
        |view| view.data(),
    );
    assert_eq!(
        data["reason"]["numbers"],
        serde_json::json!({"holder": "4.head", "at": 1_700_003_600})
    );
}

#[test]
fn the_remedy_counts_the_jobs_that_start_earlier() {
    let early = Occupant {
        job: JobId::job(7),
        end: Time(1_700_001_000_000),
        nodes: vec!["n1".into()],
    };
    let waits = Explanation {
        occupants: vec![early],
        ahead: 3,
        ..explanation(vec![busy()])
    };
    let help = with_view(&found(queued(1, "a", ""), Some(waits)), |view| {
        view.obstacles()[0].help[0].clone()
    });
    assert!(
        help.starts_with("the 3 jobs ahead of it start; it is then expected to start at "),
        "{help}"
    );
}

#[test]
fn nodes_are_grouped_by_reason() {
    let rejection = |code: &str, found: Option<(&str, &str)>, never, nodes| Rejection {
        code: code.to_string(),
        resource: found.map(|_| "ncpus".to_string()),
        requested: found.map(|_| "8".to_string()),
        found: found.map(|(least, most)| (least.to_string(), most.to_string())),
        said: Some("down".to_string()),
        never,
        nodes,
        named: vec!["n1".into(), "n2".into()],
    };
    let rejections = vec![
        rejection("node_state", None, false, 2),
        rejection("amount.ncpus", Some(("2", "4")), false, 12),
        rejection("amount.ncpus", Some(("4", "4")), true, 2),
    ];
    let survey = Some(Survey {
        chunk: "ncpus=8".into(),
        fitting: 2,
        named: vec!["n8".into(), "n9".into()],
        rejections,
    });
    let text_of_job = text(&found(
        queued(1, "a", ""),
        Some(Explanation {
            survey,
            ..explanation(vec![busy()])
        }),
    ));
    for part in [
        "  Nodes for a chunk of ncpus=8:\n",
        "2 nodes    node_state           down  [n1,n2]\n",
        "12 nodes   amount.ncpus         ncpus: 8 requested, 2 to 4 free  [n1,n2 and 10 more]\n",
        "2 nodes    amount.ncpus         ncpus: 8 requested, 4 in total  [n1,n2]\n",
        "free  [n8,n9]\n",
    ] {
        assert!(text_of_job.contains(part), "{part}: {text_of_job}");
    }
}

#[test]
fn closed_nodes_show_the_operator_and_the_comment() {
    let mut node = example::node("n2", "n2").node;
    node.offline = true;
    node.offline_by = Some("ann@head".into());
    node.comment = Some("new fans".into());
    let mut down = example::node("n3", "n3").node;
    down.up = false;
    let waits = ExplainedJob {
        closed: vec![node, down],
        ..found(
            queued(1, "a", "ncpus=8"),
            Some(Explanation {
                survey: Some(Survey::default()),
                ..explanation(vec![busy()])
            }),
        )
    };
    let text_of_job = text(&waits);
    for part in [
        "n2 has been offline since ",
        ", set by ann@head: new fans\n",
        "n3 has been down since ",
        "  Sooner if:  job 7.head ends, ",
        "or if:  an operator sets node n2 online again: pbsnodes -r n2\n",
        "or if:  node n3 responds again\n",
    ] {
        assert!(text_of_job.contains(part), "{part}: {text_of_job}");
    }
    let data = with_view(&waits, |view| view.data());
    assert_eq!(data["closed_nodes"][0]["by"], "ann@head");
    assert_eq!(data["closed_nodes"][1]["up"], false);
    let limited = ExplainedJob {
        explanation: Some(Box::new(explanation(vec![]))),
        ..waits
    };
    assert!(!text(&limited).contains("pbsnodes -r"));
}

#[test]
fn a_limit_shows_its_value_and_use() {
    let (limit, value, used) = ("max_run_subjobs".into(), "2".into(), "2".into());
    let barriers = vec![BlockingLimit {
        limit,
        value,
        used,
        by: vec![],
        more: 0,
    }];
    let waits = Explanation {
        barriers,
        ..explanation(vec![Reason::ArrayLimit {
            limit: 2,
            expand: None,
        }])
    };
    let text_of_job = text(&found(queued(1, "a", ""), Some(waits)));
    assert!(
        text_of_job.contains("  Limit:      max_run_subjobs is 2, in use: 2\n"),
        "{text_of_job}"
    );
}

#[test]
fn jobs_that_do_not_wait_show_their_state() {
    let runs = running(queued(1, "a", "walltime=01:00:00"), vec![share(2, None)]);
    assert!(
        text(&found(runs.clone(), None)).contains(" has been running since "),
        "{}",
        text(&found(runs.clone(), None))
    );
    let over = found(finished(runs, 3, false), None);
    assert!(
        text(&over).contains("with exit status 3: Job run at "),
        "{}",
        text(&over)
    );
    assert_eq!(text(&over).lines().count(), 1);
    let mut broken = found(finished(queued(2, "a", ""), 271, true), None);
    let edge = Edge {
        kind: DependencyKind::After(DependencyCondition::EndedOk),
        job: JobId::job(1),
    };
    broken.events = vec![(
        Time(0),
        Event::DependencyBroken {
            edge,
            why: "job 1 failed".into(),
        },
    )];
    let data = with_view(&broken, |view| view.data());
    assert_eq!(
        (&data["reason"]["code"], &data["state"], &data["stages"]),
        (&"dep_failed".into(), &"F".into(), &serde_json::json!([]))
    );
}

#[test]
fn json_has_the_same_keys_in_all_states() {
    let keys = |found: &ExplainedJob| {
        with_view(found, |view| {
            view.data().as_object().unwrap().keys().cloned().collect()
        })
    };
    let waits: Vec<String> = keys(&found(
        queued(1, "a", "ncpus=8"),
        Some(explanation(vec![busy()])),
    ));
    let runs = running(queued(1, "a", "walltime=01:00:00"), vec![share(2, None)]);
    for other in [
        found(runs.clone(), None),
        found(finished(runs, 3, false), None),
        found(queued(1, "a", ""), None),
    ] {
        assert_eq!(keys(&other), waits, "{:?}", other.record.job.life.state);
    }
}

#[test]
fn a_job_without_walltime_has_no_predicted_end() {
    let prediction = |list: &str| {
        let text_of_job = text(&found(
            queued(1, "a", list),
            Some(explanation(vec![busy()])),
        ));
        text_of_job
            .lines()
            .find(|line| line.contains("Predicted:"))
            .unwrap_or_default()
            .to_string()
    };
    assert!(
        prediction("walltime=1:00").contains(" on n1, ends by "),
        "{}",
        prediction("walltime=1:00")
    );
    assert!(
        prediction("").ends_with(" on n1, end unknown (no walltime)"),
        "{}",
        prediction("")
    );
}

#[test]
fn a_job_that_needs_a_change_shows_no_jobs_ahead() {
    let never = busy();
    let ahead = Explanation {
        prospect: Prospect::Waits(never.clone()),
        ahead: 3,
        ..explanation(vec![never])
    };
    let text_of_job = text(&found(queued(1, "a", "ncpus=8"), Some(ahead)));
    assert!(
        text_of_job.contains("does not start unless a user or an administrator changes something")
            && text_of_job.contains("  Starts if:  ")
            && !text_of_job.contains("Ahead:"),
        "{text_of_job}"
    );
}

#[test]
fn a_failed_start_is_shown_at_the_launch_stage() {
    let mut waits = found(
        queued(1, "a", ""),
        Some(explanation(vec![Reason::Deferred { until: Time(5) }])),
    );
    let outcome = |how| AttemptOutcome {
        how,
        sent: None,
        used: Usage::default(),
        notes: vec![],
        unfit: None,
        on_its_own: false,
    };
    waits.events = vec![
        (
            Time(1),
            Event::StartTimedOut {
                attempt: 1,
                after: Span::seconds(60),
            },
        ),
        (
            Time(2),
            Event::Ended {
                attempt: 2,
                outcome: outcome(How::NodeFault("no disk".into())),
            },
        ),
    ];
    let launch = |found: &ExplainedJob| {
        with_view(found, |view| view.steps(&view.obstacles()).pop().unwrap())
    };
    assert_eq!(launch(&waits).code, None, "the count of failed starts is 0");
    waits.record.job.life.failed_starts = 1;
    let text_of_step = launch(&waits).text;
    assert!(
        text_of_step.starts_with("a start failed at ") && text_of_step.ends_with(": no disk"),
        "{text_of_step}"
    );
    waits.record.job.life.failed_starts = 2;
    let step = launch(&waits);
    assert_eq!(
        (step.stage, step.code.as_deref(), step.verdict),
        (
            CycleStage::Launch,
            Some("node_nack"),
            StageVerdict::NotReached
        )
    );
    assert!(
        step.text.starts_with("2 starts failed, the last at ") && step.text.ends_with(": no disk"),
        "{}",
        step.text
    );
    waits.events.pop();
    assert_eq!(launch(&waits).code.as_deref(), Some("start_timeout"));
}

#[test]
fn every_reason_has_a_sentence() {
    let waits = found(queued(1, "a", ""), None);
    for reason in reason::tests::all() {
        let text_of_job = with_view(&waits, |view| view.reason_sentence(&reason));
        assert!(
            text_of_job.ends_with('.') && !text_of_job.ends_with("..") && text_of_job.len() > 20,
            "{reason:?}: {text_of_job}"
        );
        assert!(
            !text_of_job.starts_with("Not Running"),
            "{reason:?}: {text_of_job}"
        );
    }
}
