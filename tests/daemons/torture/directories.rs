//! Two nodeds with the same node name and different state directories alternate at one socket, as
//! pilot jobs and reinstalled hosts do, while they and schedd are killed. Each attempt starts once.

use super::rng::Rng;
use crate::support::sandbox::{Sandbox, finish, kill};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::process::Child;
use std::time::{Duration, Instant};

const DIRECTORIES: [&str; 2] = ["a", "b"];
/// Jobs submitted before each kill.
const BATCH: usize = 4;

/// Marks its start with an exclusively created file.
const SCRIPT: &str = "mark=start.${PBS_JOBID%%.*}.$LANAI_ATTEMPT
set -C
: > $mark || : > TWICE.$mark.$$
sleep $TIME
";

struct Pair {
    sandbox: Sandbox,
    nodeds: BTreeMap<&'static str, Child>,
    jobs: Vec<String>,
}

impl Pair {
    fn new() -> Pair {
        let sandbox = Sandbox::new();
        let socket = sandbox.home().join("n1.sock");
        let config = format!(
            "[launch]\nlogin = false\n[[node]]\nname = \"n1\"\nsocket = \"{}\"\n",
            socket.display()
        );
        fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
        sandbox.script("job", SCRIPT);
        let mut pair = Pair {
            sandbox,
            nodeds: BTreeMap::new(),
            jobs: Vec::new(),
        };
        DIRECTORIES
            .iter()
            .for_each(|directory| pair.start(directory));
        pair.redirect_to("a");
        pair.sandbox.run("schedd", &[]).ok();
        pair
    }

    fn start(&mut self, directory: &'static str) {
        let noded = self
            .sandbox
            .start_noded("n1", "8", directory, directory, &[]);
        self.nodeds.insert(directory, noded);
    }

    /// Redirects the node's socket to the noded with this state directory.
    fn redirect_to(&self, directory: &str) {
        let home = self.sandbox.home();
        let new = home.join("n1.sock.new");
        let _ = fs::remove_file(&new);
        symlink(home.join(format!("{directory}.sock")), &new).unwrap();
        fs::rename(new, home.join("n1.sock")).unwrap();
    }

    fn submit(&mut self, rng: &mut Rng) {
        for _ in 0..BATCH {
            let time = format!("TIME=0.{}", rng.below(8));
            let mut command = self.sandbox.command("qsub");
            command
                .args([
                    "-N",
                    "once",
                    "-j",
                    "oe",
                    "-o",
                    "/dev/null",
                    "-v",
                    &time,
                    "--",
                ])
                .arg("/bin/sh");
            command.arg(self.sandbox.file("job"));
            let done = finish(command.output().unwrap());
            self.jobs.push(done.line());
        }
    }

    /// Kills schedd, or kills and restarts one of the nodeds. Then redirects the socket in half of
    /// the cases.
    fn kill_one(&mut self, rng: &mut Rng) {
        match rng.below(4) {
            0 => {
                if let Some(schedd) = self.sandbox.pid_of("schedd") {
                    kill(schedd, 9);
                }
            }
            other => {
                let directory = DIRECTORIES[(other % 2) as usize];
                if let Some(mut noded) = self.nodeds.remove(directory) {
                    noded.kill().unwrap();
                    noded.wait().unwrap();
                }
                self.start(directory);
            }
        }
        if rng.below(2) == 0 {
            self.redirect_to(DIRECTORIES[rng.below(2) as usize]);
        }
    }

    fn all_finished(&self) -> bool {
        let listed = self.sandbox.run("qselect", &[]);
        listed.code == 0 && listed.out.is_empty()
    }

    /// Alternates between the nodeds until all jobs have finished.
    fn wait(&self) {
        let started = Instant::now();
        for directory in DIRECTORIES.iter().cycle() {
            if self.all_finished() {
                return;
            }
            assert!(
                started.elapsed() < Duration::from_secs(300),
                "{}",
                self.sandbox.run("qstat", &["-a"]).out
            );
            // schedd may have been the last daemon killed.
            self.sandbox.run("schedd", &[]).ok();
            self.redirect_to(directory);
            let turn = Instant::now();
            // Longer than the interval at which schedd connects again to a refused noded.
            while turn.elapsed() < Duration::from_secs(8) && !self.all_finished() {
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("schedd:\n{}", self.sandbox.log());
        }
        self.sandbox.end();
        for noded in self.nodeds.values_mut() {
            let _ = noded.kill();
            let _ = noded.wait();
        }
    }
}

/// Kills one of the nodeds or schedd `kills` times, and submits jobs before each kill.
fn torture_run(kills: usize) {
    let mut rng = Rng::from_environment();
    println!("TORTURE_SEED={} {kills} kills", rng.seed());
    let mut pair = Pair::new();
    for _ in 0..kills {
        pair.submit(&mut rng);
        std::thread::sleep(Duration::from_millis(rng.below(600)));
        pair.kill_one(&mut rng);
    }
    pair.wait();
    let names = fs::read_dir(pair.sandbox.work())
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name());
    let names: Vec<String> = names
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    let twice: Vec<&String> = names
        .iter()
        .filter(|name| name.starts_with("TWICE"))
        .collect();
    assert!(twice.is_empty(), "attempts that started twice: {twice:?}");
    assert_eq!(pair.jobs.len(), kills * BATCH);
    for id in &pair.jobs {
        let mark = format!("start.{}.", id.split('.').next().unwrap());
        let starts = names.iter().filter(|name| name.starts_with(&mark)).count();
        let job = pair.sandbox.job(id);
        assert_eq!((starts, &job["Exit_status"]), (1, &0.into()), "{job}");
    }
    let log = pair.sandbox.log();
    println!(
        "{} jobs, {} refusals",
        pair.jobs.len(),
        log.matches("refused a noded").count()
    );
}

#[test]
fn a_few_jobs_under_two_nodeds_of_one_name_start_once_each() {
    torture_run(6);
}

#[test]
#[ignore = "takes minutes: make torture"]
fn two_hundred_jobs_under_two_nodeds_of_one_name_start_once_each() {
    torture_run(50);
}
