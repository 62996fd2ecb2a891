//! Tests of the state, the effect of keys, and the drawn screen.

use super::super::input::Command;
use super::super::keys::Key;
use super::super::screenshot_tests::{example_state, text};
use super::super::tasks::Task;
use super::*;
use crate::cli::example::{queued, with};

fn ids(state: &TopState) -> String {
    let ids: Vec<String> = state.jobs().map(|job| job.id()).collect();
    ids.join(" ")
}

fn type_text(state: &mut TopState, text: &str) {
    for c in text.chars() {
        state.press(Key::Char(c));
    }
}

#[test]
fn the_queue_of_a_small_screen() {
    let mut state = example_state(80, 24);
    state.select(4);
    let screen = text(&state);
    let lines: Vec<&str> = screen.lines().collect();
    assert!(lines[0].starts_with(" 1 Queue  2 Nodes  3 Details  4 Timeline"));
    assert!(lines[0].contains("all jobs: 3 queued"), "{}", lines[0]);
    assert!(lines[1].starts_with("┌ 1 Queue ─") && lines[1].ends_with(" 5/10 ┐"));
    assert_eq!(
        lines[2],
        "│   ID NAME         USER  STATE     CPUS  ELAPSED DETAIL                       │"
    );
    assert_eq!(
        lines[3],
        "│  101 train        alice running      4      15m gpu1                         │"
    );
    assert!(screen.contains("│  103 broken       alice failed       1   2m 30s signal 9 (KILL)"));
    assert!(lines[23].starts_with("q quit  / filter  w why"));
}

#[test]
fn a_large_screen_shows_all_panes() {
    let state = example_state(200, 60);
    let screen = text(&state);
    for part in [
        "┌ 1 Queue ─",
        "┌ 2 Nodes ─",
        "┌ 3 Details ─",
        "┌ 4 Timeline ─",
        "Job 101.head",
        "CPUS FREE",
        "now",
        "│gpu1",
    ] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
}

#[test]
fn the_timeline_shows_past_current_and_planned_runs() {
    let mut state = example_state(80, 24);
    state.press(Key::Char('4'));
    let screen = text(&state);
    let line = |start: &str| {
        screen
            .lines()
            .find(|line| line.starts_with(start))
            .unwrap()
            .to_string()
    };
    let gpu = line("│gpu1");
    assert!(gpu.contains('▓') && gpu.contains("101"), "{gpu}");
    assert!(gpu.contains('█') && gpu.contains('░'), "{gpu}");
    assert!(gpu.contains("109") && gpu.contains('▒'), "{gpu}");
    // A shorter period hides the planned run.
    let before = state.zoom;
    state.press(Key::Char('+'));
    assert_eq!(state.zoom, before - 1);
    state.press(Key::Char('+'));
    assert!(!text(&state).contains("109"));
}

#[test]
fn tab_and_digits_change_the_pane() {
    let mut state = example_state(80, 24);
    for (key, pane) in [
        (Key::Tab, Pane::Nodes),
        (Key::Tab, Pane::Details),
        (Key::BackTab, Pane::Nodes),
        (Key::Char('4'), Pane::Timeline),
        (Key::Tab, Pane::Queue),
        (Key::Char('2'), Pane::Nodes),
        (Key::Escape, Pane::Queue),
    ] {
        state.press(key);
        assert_eq!(state.focus, pane, "{key:?}");
    }
    state.press(Key::Char('2'));
    assert!(
        text(&state).contains("│head   job-busy"),
        "{}",
        text(&state)
    );
}

#[test]
fn the_selection_stays_on_its_job() {
    let mut state = example_state(80, 24);
    assert_eq!(ids(&state), "101 104 105 106 108[] 109 110 112 102 103");
    state.press(Key::Char('j'));
    state.press(Key::Down);
    assert_eq!(state.selected, Some(JobId::job(105)));
    let mut data = state.snapshot.clone().unwrap();
    data.jobs.remove(0);
    state.refresh(data.clone());
    assert_eq!(state.selected, Some(JobId::job(105)));
    assert_eq!(state.selected_row(), Some(1));
    // If the job disappears, the job in its row is selected.
    data.jobs.remove(1);
    state.refresh(data);
    assert_eq!(state.selected, Some(JobId::job(106)));
    state.press(Key::End);
    assert_eq!(state.selected, Some(JobId::job(103)));
    state.press(Key::PageUp);
    assert_eq!(state.selected, Some(JobId::job(104)));
}

#[test]
fn a_long_queue_scrolls() {
    let mut state = example_state(80, 10);
    let mut data = state.snapshot.clone().unwrap();
    data.jobs = (1..=100).map(|id| queued(id, "a", "")).collect();
    state.refresh(data);
    assert_eq!(state.layout().queue_rows(), 5);
    state.press(Key::Home);
    state.press(Key::PageDown);
    assert_eq!((state.selected_row(), state.offsets[0]), (Some(5), 1));
    state.press(Key::End);
    assert_eq!((state.selected_row(), state.offsets[0]), (Some(99), 95));
    assert!(text(&state).contains("100/100"));
    // With fewer jobs, no empty lines remain.
    let mut data = state.snapshot.clone().unwrap();
    data.jobs.truncate(7);
    state.refresh(data);
    assert_eq!((state.selected_row(), state.offsets[0]), (Some(6), 2));
}

#[test]
fn the_filter_applies_while_it_is_typed() {
    let mut state = example_state(80, 24);
    type_text(&mut state, "/sim");
    assert_eq!(ids(&state), "104 105");
    assert!(text(&state).contains("/sim_  Enter: keep, Esc: cancel"));
    type_text(&mut state, " state=q");
    assert!(text(&state).contains("unknown state 'q'"));
    state.press(Key::Control('u'));
    type_text(&mut state, "state=queued user=me");
    assert_eq!(ids(&state), "108[] 109");
    // Keys of commands are text here.
    assert_eq!(state.press(Key::Char('q')), None);
    state.press(Key::Backspace);
    state.press(Key::Enter);
    assert_eq!(ids(&state), "108[] 109");
    assert!(text(&state).contains("/state=queued user=me  1/2"));
    type_text(&mut state, "/x");
    assert_eq!(ids(&state), "");
    assert!(text(&state).contains("No jobs match the filter."));
    state.press(Key::Escape);
    assert_eq!(ids(&state), "108[] 109");
    state.press(Key::Escape);
    assert_eq!(state.rows.len(), 10);
}

#[test]
fn keys_start_tasks_for_the_selected_job() {
    let mut state = example_state(80, 24);
    state.select(5);
    let job = JobId::job(109);
    let hold = Command::Start(Task::Act(JobAction::Hold, job));
    let release = Command::Start(Task::Act(JobAction::Release, job));
    let cancel = Command::Start(Task::Act(JobAction::Cancel, job));
    assert_eq!(state.press(Key::Char('h')), Some(hold));
    assert_eq!(state.press(Key::Char('r')), Some(release));
    assert_eq!(state.press(Key::Char('c')), None);
    assert!(text(&state).contains("Cancel job 109? y or n"));
    assert_eq!(state.press(Key::Char('n')), None);
    state.press(Key::Char('c'));
    assert_eq!(state.press(Key::Char('y')), Some(cancel));
    assert_eq!(state.prompt, Prompt::Commands);
    let explain = Command::Start(Task::Explain(job));
    assert_eq!(state.press(Key::Enter), Some(explain));
    assert!(text(&state).contains("Asking the scheduler ..."));
    state.finish(TaskResult::Explained(JobId::job(1), "other".into()));
    state.finish(TaskResult::Explained(job, "It waits for its turn.".into()));
    assert!(text(&state).contains("It waits for its turn."));
    let log = Command::Start(Task::Log(job));
    assert_eq!(state.press(Key::Char('l')), Some(log));
    let lines: String = (1..=100).map(|line| format!("line {line}\n")).collect();
    state.finish(TaskResult::Log(job, lines));
    assert!(text(&state).contains("line 100") && !text(&state).contains("line 1 "));
    state.press(Key::Home);
    assert!(text(&state).contains("│line 1 "));
    assert_eq!(state.press(Key::Control('c')), Some(Command::Quit));
}

#[test]
fn results_of_actions_are_shown() {
    let mut state = example_state(80, 24);
    let job = JobId::job(109);
    state.finish(TaskResult::Acted(JobAction::Hold, job, Ok(())));
    assert!(text(&state).contains("Job 109 is held"));
    let failure = Err("Unauthorized Request 109".to_string());
    state.finish(TaskResult::Acted(JobAction::Cancel, job, failure));
    assert!(text(&state).contains("Unauthorized Request 109"));
    state.press(Key::Char('j'));
    assert!(text(&state).contains("q quit"));
    state.offline = Some("no socket".into());
    assert!(text(&state).contains("Waiting for schedd: no socket"));
}

#[test]
fn sort_columns_follow_each_other() {
    let mut state = example_state(80, 24);
    state.press(Key::Char('s'));
    assert_eq!(ids(&state), "101 102 103 104 105 106 108[] 109 110 112");
    state.press(Key::Char('S'));
    assert!(ids(&state).starts_with("112 110"));
    state.press(Key::Char('S'));
    state.press(Key::Char('s'));
    assert!(
        ids(&state).starts_with("110 103 106 102"),
        "{}",
        ids(&state)
    );
    state.press(Key::Char('s'));
    state.press(Key::Char('s'));
    assert!(
        ids(&state).starts_with("101 102 109 106"),
        "{}",
        ids(&state)
    );
}

#[test]
fn help_covers_the_screen_until_a_key() {
    let mut state = example_state(80, 24);
    state.press(Key::Char('?'));
    assert!(text(&state).contains("cancel the job (qdel), after a confirmation"));
    assert_eq!(state.press(Key::Char('q')), None);
    assert!(!text(&state).contains("after a confirmation"));
}

#[test]
fn control_characters_in_names_do_not_reach_the_terminal() {
    let mut state = example_state(80, 24);
    let mut data = state.snapshot.clone().unwrap();
    data.jobs = vec![with(queued(1, "a", ""), |spec| {
        spec.name = "x\u{1b}[2J\u{9b}y".into();
    })];
    state.refresh(data);
    state.filter = LiveFilter::default();
    for pane in ['1', '3', '4'] {
        state.press(Key::Char(pane));
        let screen = text(&state);
        assert!(!screen.contains(['\u{1b}', '\u{9b}']), "{screen}");
    }
    assert!(
        text(&state).contains("│") && {
            state.press(Key::Char('1'));
            text(&state).contains("x?[2J?y")
        }
    );
}

#[test]
fn without_color_no_cell_has_a_color() {
    use ratatui::style::Color;
    let mut state = example_state(200, 60);
    let has_color = |state: &TopState| {
        let buffer = super::super::screenshot_tests::drawn(state);
        buffer
            .content
            .iter()
            .any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset)
    };
    assert!(has_color(&state));
    state.has_color = false;
    assert!(!has_color(&state));
}

#[test]
fn the_time_matters_only_if_running_jobs_are_visible() {
    let mut state = example_state(80, 24);
    assert!(state.shows_time());
    state.press(Key::Char('2'));
    assert!(!state.shows_time());
    state.press(Key::Char('1'));
    state.set_filter("state=queued");
    assert!(!state.shows_time());
    state.press(Key::Char('4'));
    assert!(state.shows_time() && state.needs_starts());
}

#[test]
fn every_size_of_the_terminal_can_be_drawn() {
    for (columns, rows) in [
        (1, 1),
        (2, 3),
        (10, 4),
        (40, 8),
        (140, 36),
        (300, 5),
        (5, 90),
    ] {
        let mut state = example_state(columns, rows);
        for key in ['1', '2', '3', '4', '?'] {
            state.press(Key::Char(key));
            text(&state);
        }
    }
}
