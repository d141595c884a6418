//! Whether a coordinator answers, and whether it is ready to be given work.

use serde::Serialize;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{Client, ClientError, client::Repeat};

/// What a coordinator says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Health {
    /// Which coordinator answered.
    pub endpoint: String,
    /// True where it takes work: its database answers.
    pub ready: bool,
}

impl Client {
    /// Asks whether a coordinator answers and is ready.
    ///
    /// # Errors
    /// None answers.
    pub async fn check_health(&self) -> Result<Health, ClientError> {
        // The empty name stands for the coordinator as a whole.
        let ask = |channel| async move {
            HealthClient::new(channel).check(HealthCheckRequest { service: String::new() }).await
        };
        let answer = self.call(Repeat::Reads, ask).await?;
        Ok(Health { endpoint: self.present_endpoint(), ready: answer.status() == ServingStatus::Serving })
    }
}
