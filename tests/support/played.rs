//! A simulated noded; the test chooses its answers.

use super::sandbox::Sandbox;
use lanai::model::node::NodeFacts;
use lanai::model::resource::{ResourceValue, Size};
use lanai::wire::frame;
use lanai::wire::order::{NodeReport, ScheddOrder};
use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Orders that a simulated noded has received, with their times.
pub type ReceivedOrders = Arc<Mutex<Vec<(Instant, ScheddOrder)>>>;

/// A simulated noded for node `n1`; a callback of the test answers orders with reports.
pub struct SimulatedNoded {
    pub sandbox: Sandbox,
    orders: ReceivedOrders,
    /// Connection to schedd, once schedd has connected.
    connection: Arc<Mutex<Option<UnixStream>>>,
}

impl SimulatedNoded {
    pub fn new(
        launch: &str,
        answer: impl Fn(&ScheddOrder) -> Vec<NodeReport> + Send + 'static,
    ) -> SimulatedNoded {
        let sandbox = Sandbox::new();
        let socket = sandbox.home().join("played.sock");
        let config = format!(
            "[launch]\nlogin = false\n{launch}\n[[node]]\nname = \"n1\"\nsocket = \"{}\"\n",
            socket.display()
        );
        fs::write(sandbox.home().join("lanai.toml"), config).unwrap();
        let listener = UnixListener::bind(&socket).unwrap();
        let orders = ReceivedOrders::default();
        let connection = Arc::new(Mutex::new(None));
        let (thread_orders, thread_connection) = (orders.clone(), connection.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                *thread_connection.lock().unwrap() = stream.try_clone().ok();
                serve(stream, &thread_orders, &answer);
            }
        });
        SimulatedNoded {
            sandbox,
            orders,
            connection,
        }
    }

    /// Sends a report without an order.
    pub fn send_report(&self, report: &NodeReport) {
        let mut connection = self.connection.lock().unwrap();
        frame::write(
            connection.as_mut().expect("schedd has not connected yet"),
            report,
        )
        .unwrap();
    }

    /// Time, job number and attempt of each start order.
    pub fn starts(&self) -> Vec<(Instant, u64, u32)> {
        let orders = self.orders.lock().unwrap();
        let start = |(at, order): &(Instant, ScheddOrder)| match order {
            ScheddOrder::Start(launch) => Some((*at, launch.job.number, launch.attempt)),
            _ => None,
        };
        orders.iter().filter_map(start).collect()
    }

    /// Time of the cancel order for this attempt of a job; None if there was none.
    pub fn cancelled(&self, number: u64, wanted: u32) -> Option<Instant> {
        let orders = self.orders.lock().unwrap();
        let is_match = |order: &ScheddOrder| matches!(order, ScheddOrder::Cancel { job, attempt, .. } if job.number == number && *attempt == wanted);
        orders
            .iter()
            .find(|(_, order)| is_match(order))
            .map(|(at, _)| *at)
    }

    /// Asserts that the node is free and no processors are assigned.
    #[track_caller]
    pub fn is_free(&self) {
        let text = self.sandbox.run("pbsnodes", &["n1"]).ok();
        assert!(
            text.contains("state = free") && text.contains("resources_assigned.ncpus = 0"),
            "{text}"
        );
    }
}

fn serve(
    mut stream: UnixStream,
    orders: &ReceivedOrders,
    answer: &impl Fn(&ScheddOrder) -> Vec<NodeReport>,
) {
    while let Ok(order) = frame::read::<ScheddOrder>(&mut stream) {
        orders.lock().unwrap().push((Instant::now(), order.clone()));
        let reports = match &order {
            ScheddOrder::Hello { .. } => {
                let (boot, directory) = ("b".into(), "d".repeat(32));
                vec![NodeReport::Hello {
                    boot,
                    directory,
                    nodes: vec![facts()],
                    attempts: vec![],
                }]
            }
            ScheddOrder::Ping => vec![NodeReport::Pong],
            order => answer(order),
        };
        for report in reports {
            let _ = frame::write(&mut stream, &report);
        }
    }
}

/// Reported facts of the node: 4 processors and 4 GB.
pub fn facts() -> NodeFacts {
    let available = [
        ("ncpus".to_string(), ResourceValue::Long(4)),
        (
            "mem".to_string(),
            ResourceValue::Size(Size::parse("4gb").unwrap()),
        ),
        ("host".to_string(), ResourceValue::String("n1".into())),
        ("vnode".to_string(), ResourceValue::String("n1".into())),
    ];
    NodeFacts {
        name: "n1".into(),
        host: "n1".into(),
        available: available.into(),
        pcpus: 4,
        ..NodeFacts::default()
    }
}
