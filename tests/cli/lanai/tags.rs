//! Tags of jobs.

use crate::support::sandbox::{Sandbox, number, refused_exactly};

fn tag(sandbox: &Sandbox, id: &str) -> Option<String> {
    sandbox.job(id)["tag"].as_str().map(String::from)
}

#[test]
fn jobs_are_selected_by_their_tags() {
    let sandbox = Sandbox::new();
    let tagged = sandbox.submit(
        &["-h", "-W", "tag=run=7+phase=b", "-W", "tag=urgent"],
        "true\n",
    );
    let plain = sandbox.submit(&["-h"], "true\n");
    assert_eq!(
        tag(&sandbox, &tagged).as_deref(),
        Some("run=7+phase=b+urgent")
    );
    assert_eq!(tag(&sandbox, &plain), None);
    let text = sandbox.run("qstat", &["-f", &plain]).ok();
    assert!(!text.contains("tag ="), "{text}");
    let list = sandbox
        .run("lanai", &["list", "tag.run=7", "-o", "id,tags"])
        .ok();
    let row = format!("{}   phase=b run=7 urgent=\n", number(&tagged));
    assert!(list.contains(&row), "{list}");
    assert!(list.ends_with("1 job: 1 held\n"), "{list}");
    sandbox
        .run("qalter", &["-W", "tag=run=8", &tagged, &plain])
        .ok();
    assert_eq!(tag(&sandbox, &plain).as_deref(), Some("run=8"));
    assert_eq!(tag(&sandbox, &tagged).as_deref(), Some("run=8"));
    sandbox.run("qalter", &["-W", "tag=", &plain]).ok();
    assert_eq!(tag(&sandbox, &plain), None);
}

#[test]
fn malformed_tags_are_refused() {
    let sandbox = Sandbox::new();
    let id = sandbox.submit(&["-h"], "true\n");
    for wrong in ["tag=a b=1", "tag==1", "tag=a=1+a=2", "tag=a=\u{1b}[2J"] {
        let done = sandbox.run("qalter", &["-W", wrong, &id]);
        assert_eq!(done.code, 2, "{done:?}");
        assert!(
            done.err.starts_with("qalter: illegal -W value\n"),
            "{done:?}"
        );
    }
    // The same key in two options: only the server sees both.
    refused_exactly(
        sandbox.run("qalter", &["-W", "tag=a=1", "-W", "tag=a=2", &id]),
        166,
        &format!("qalter: Illegal attribute or resource value tag {id}"),
    );
    assert_eq!(tag(&sandbox, &id), None);
}
