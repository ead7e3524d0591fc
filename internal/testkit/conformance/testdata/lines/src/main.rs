//! Writes three records with tracing-subscriber, as JSON if the argument is "json".
use tracing::{error, info, warn};

fn main() {
    let logs = tracing_subscriber::fmt();
    if std::env::args().nth(1).as_deref() == Some("json") {
        logs.json().init();
    } else {
        logs.init();
    }
    info!(order = 7, "served");
    warn!("slow");
    error!("no card");
}
