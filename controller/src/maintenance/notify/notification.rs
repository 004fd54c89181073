//! What a channel is told, in the format of its receiver.

use nodelife_core::API_VERSION;
use nodelife_core::node_maintenance::NodeMaintenance;
use nodelife_core::text::Str;
use serde_json::{Value, json};

use super::Notice;

/// The plain document.
pub(super) fn document(object: &NodeMaintenance, (event, time, text): &Notice) -> Value {
    let (meta, nodes) = (&object.metadata, object.status.nodes.iter());
    json!({
        "apiVersion": API_VERSION,
        "kind": "MaintenanceNotification",
        "maintenance": meta.name,
        "uid": meta.uid,
        "event": event,
        "message": format!("NodeMaintenance {} {text}", meta.name),
        "nodes": nodes.map(|node| &node.name).collect::<Vec<&Str>>(),
        "time": time,
        // The same in a repetition; a maintenance may be blocked again later.
        "id": format!("{}/{event}/{}", meta.uid, time.as_second()),
    })
}

/// In the format that this host takes. Names and causes are words of others: nothing in them is markup.
pub(super) fn body(document: &Value, host: &str) -> Value {
    // Workflows: prod-00.westeurope.logic.azure.com, ID.environment.api.powerplatform.com.
    const TEAMS: [&str; 3] = [
        ".webhook.office.com",
        ".logic.azure.com",
        ".api.powerplatform.com",
    ];
    let host = host.to_ascii_lowercase();
    let text = document.get("message").and_then(Value::as_str);
    let text = text.unwrap_or_default();
    if host == "hooks.slack.com" {
        // These three alone: docs.slack.dev/messaging/formatting-message-text.
        let text = text.replace('&', "&amp;");
        let text = text.replace('<', "&lt;").replace('>', "&gt;");
        return json!({"text": text, "mrkdwn": false});
    }
    if TEAMS.iter().any(|end| host.ends_with(end)) {
        return json!({"type": "message", "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.2",
                // A TextRun has no markup, unlike a TextBlock.
                "body": [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", "text": text}]}],
            },
        }]});
    }
    document.clone()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use nodelife_core::node_maintenance::NodeStatus;

    use super::*;

    fn notification(text: &str) -> Value {
        let mut object = NodeMaintenance::default();
        (object.metadata.name, object.metadata.uid) = ("up".into(), "1-2".into());
        object.status.nodes = vec![NodeStatus::default()];
        object.status.nodes[0].name = "a".into();
        document(&object, &("failed", Timestamp::UNIX_EPOCH, text.to_owned()))
    }

    #[test]
    fn any_other_host_gets_a_plain_document() {
        // Suffixes are those of whole labels.
        for host in [
            "bridge.example",
            "hooks.slack.com.example",
            "evillogic.azure.com",
            "",
        ] {
            let plain = body(&notification("has failed: <b> & *c*"), host);
            let expected = json!({
                "apiVersion": "nodelife.dev/v1alpha1", "kind": "MaintenanceNotification",
                "maintenance": "up", "uid": "1-2", "event": "failed",
                "message": "NodeMaintenance up has failed: <b> & *c*", "nodes": ["a"],
                "time": "1970-01-01T00:00:00Z", "id": "1-2/failed/0",
            });
            assert_eq!(plain, expected);
        }
    }

    #[test]
    fn slack_finds_no_markup_in_a_cause() {
        let told = body(
            &notification("has failed: <!channel> & &lt;"),
            "Hooks.Slack.Com",
        );
        let text = "NodeMaintenance up has failed: &lt;!channel&gt; &amp; &amp;lt;";
        assert_eq!(told, json!({"text": text, "mrkdwn": false}));
    }

    #[test]
    fn teams_gets_a_card_without_markup() {
        for host in [
            "acme.webhook.office.com",
            "prod-00.westeurope.logic.azure.com",
            "942e.4a.environment.api.powerplatform.com",
        ] {
            let told = body(&notification("has failed: [x](http://y) <b>"), host);
            assert_eq!(told["type"], "message");
            let card = &told["attachments"][0];
            assert_eq!(
                card["contentType"],
                "application/vnd.microsoft.card.adaptive"
            );
            assert_eq!(card["content"]["type"], "AdaptiveCard");
            let text = "NodeMaintenance up has failed: [x](http://y) <b>";
            let run = json!({"type": "TextRun", "text": text});
            let block = json!([{"type": "RichTextBlock", "inlines": [run]}]);
            assert_eq!(card["content"]["body"], block);
        }
    }
}
