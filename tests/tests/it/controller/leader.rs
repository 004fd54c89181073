//! Tests of the leader election with two replicas.

use nodelife_tests::{Parts, PlaneLease, TIMEOUT, until};

use super::support::Controller;

#[tokio::test]
async fn another_replica_goes_on_after_the_leaders_end() {
    let plane = PlaneLease::take(Parts::Api).await.unwrap();
    let controller = Controller::install(&plane).await;
    let leads = async |replica: &str| {
        until(&format!("{replica} to lead"), async || {
            let leader = controller.leader().await?;
            anyhow::ensure!(leader == replica, "the leader is {leader:?}");
            Ok(Some(()))
        })
        .await;
    };
    let one = controller.start("one", &[]);
    leads("one").await;
    let two = controller.start("two", &[]);
    // A leader that is killed releases nothing: its Lease has to expire.
    one.kill().await.unwrap();
    leads("two").await;
    let three = controller.start("three", &[]);
    // A leader that is told to end gives its Lease back.
    assert_eq!(two.terminate(TIMEOUT).await.unwrap(), 0);
    leads("three").await;
    assert_eq!(three.terminate(TIMEOUT).await.unwrap(), 0);
    assert_eq!(controller.leader().await.unwrap(), "");
}
