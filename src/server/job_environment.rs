//! The environment of a submitted job: the owner's login environment or the environment of `qsub`.

use crate::model::job::Spec;
use crate::model::job::environment::JobEnvironment;
use crate::server::setup::Setup;
use crate::wire::message::AttributeSetting;
use crate::wire::message::NewJob;

/// Decides which environment a job gets. If it is the environment of the submission, adds the
/// variables of `qsub`. Stores this decision as an attribute of the job, so that a change of the
/// configuration affects only later submissions.
pub fn decide(setup: &Setup, submission: &mut NewJob) {
    let inherited = std::mem::take(&mut submission.inherited);
    let is_own = |setting: &&AttributeSetting| {
        let name = &setting.attribute;
        name.eq_ignore_ascii_case(JobEnvironment::ATTRIBUTE)
    };
    let requested = submission.settings.iter().rev().find(is_own);
    let environment = match requested {
        // Submission refuses an unknown name.
        Some(setting) => JobEnvironment::named(&setting.value.lossy()),
        None => Some(default(setup)),
    };
    if environment != Some(JobEnvironment::Submission) {
        return;
    }
    if requested.is_none() {
        submission.settings.push(AttributeSetting::new(
            JobEnvironment::ATTRIBUTE,
            JobEnvironment::Submission.name(),
        ));
    }
    submission.environ.extend(inherited);
}

/// The environment of jobs that request none: `[launch] environment`, else the submission's in an
/// installation of one user, and PBS's login environment in a shared installation.
fn default(setup: &Setup) -> JobEnvironment {
    let by_kind = if setup.shared {
        JobEnvironment::Login
    } else {
        JobEnvironment::Submission
    };
    setup.config.launch.environment.unwrap_or(by_kind)
}

/// Whether a login shell reads the owner's profile before the job's script runs: `[launch] login`,
/// else for jobs with the login environment.
pub fn uses_login_shell(setup: &Setup, spec: &Spec) -> bool {
    let by_environment = JobEnvironment::of(spec) == JobEnvironment::Login;
    setup.config.launch.login.unwrap_or(by_environment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::model::job::Owner;
    use crate::model::text::Text;
    use crate::schedd::accounts::SystemAccounts;
    use crate::server::setup::Installation;
    use crate::wire::message::Payload;
    use std::sync::Arc;

    fn setup(system: bool, config: &str) -> Setup {
        let installation = Installation {
            host: "head".into(),
            own: Owner {
                user: "ann".into(),
                uid: 1000,
                gid: 1000,
            },
            system,
            nested: false,
            config: Default::default(),
            mailer: None,
            accounts: Arc::new(SystemAccounts),
        };
        let file = Arc::new(Config::parse(config).unwrap());
        Setup::new(installation, config.into(), file)
    }

    /// The environment and the attribute that a job gets.
    fn decided(setup: &Setup, requested: Option<&str>) -> (String, Option<String>) {
        let setting = |value: &str| AttributeSetting::new("Environment", value);
        let mut submission = NewJob {
            token: [0; 16],
            settings: requested.map(setting).into_iter().collect(),
            payload: Payload::Script(Vec::new()),
            environ: b"A=1\0".to_vec(),
            inherited: b"B=2\0".to_vec(),
            workdir: Text::default(),
            submit_host: String::new(),
            arguments: Text::default(),
            defaults: String::new(),
            stored: None,
        };
        decide(setup, &mut submission);
        assert!(submission.inherited.is_empty());
        let environ = String::from_utf8(submission.environ).unwrap();
        let attribute = submission.settings.pop();
        (
            environ.replace('\0', " ").trim_end().to_string(),
            attribute.map(|setting| setting.value.lossy().into_owned()),
        )
    }

    #[test]
    fn the_kind_of_the_installation_the_site_and_the_user_decide() {
        let login = |name: Option<&str>| ("A=1".to_string(), name.map(String::from));
        let submission = ("A=1 B=2".to_string(), Some("submission".to_string()));
        let personal = setup(false, "");
        assert_eq!(decided(&personal, None), submission);
        assert_eq!(decided(&personal, Some("login")), login(Some("login")));
        for shared in [setup(true, ""), setup(false, "[server]\nshared = true\n")] {
            assert_eq!(decided(&shared, None), login(None));
            assert_eq!(decided(&shared, Some("submission")), submission);
        }
        let configured = setup(false, "[launch]\nenvironment = \"login\"\n");
        assert_eq!(decided(&configured, None), login(None));
        let configured = setup(true, "[launch]\nenvironment = \"submission\"\n");
        assert_eq!(decided(&configured, None), submission);
        assert_eq!(decided(&personal, Some("x")), login(Some("x")));
    }
}
