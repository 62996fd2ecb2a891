//! `scenario.toml` uses every section and most keys, events and expectations of a scenario.

use super::old_file;
use crate::support::sandbox::Sandbox;

#[test]
fn an_old_scenario_gives_the_expected_schedule() {
    let sandbox = Sandbox::new();
    let scenario = old_file("scenario.toml");
    let done = sandbox.run("qsim", &["check", scenario.to_str().unwrap()]);
    assert_eq!(done.code, 0, "{done:?}");
}
