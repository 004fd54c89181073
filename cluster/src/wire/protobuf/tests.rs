use bytes::Bytes;
use nodelife_core::object::Lease;

use super::*;
use crate::wire::schema;

/// A field whose payload has a length.
fn put(tag: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    let mut bytes = vec![tag << 3 | 2, length];
    bytes.extend(payload);
    bytes
}

fn page() -> Bytes {
    let time = [0x08, 0x05, 0x10, 0x00];
    // managedFields (17), which is skipped by its length.
    let managed = b"\x8a\x01\x02xx".to_vec();
    let meta = [put(1, b"n1"), put(3, b""), managed].concat();
    let spec = [put(1, b"n1"), vec![0x10, 40], put(4, &time)].concat();
    let item = [put(1, &meta), put(2, &spec)].concat();
    let head = [put(2, b"7"), put(3, b"more"), vec![0x20, 9]].concat();
    let list = [put(1, &head), put(2, &item)].concat();
    Bytes::from([MAGIC.to_vec(), put(1, b"type"), put(2, &list)].concat())
}

#[test]
fn reads_a_status_instead_of_a_list() {
    let cause = [put(1, b"Why"), put(2, b"so"), put(3, b"a.b")].concat();
    let details = [put(1, b"x"), put(3, b"pods"), put(4, &cause), vec![0x28, 7]].concat();
    let code = vec![0x30, 0x9a, 0x03];
    let next = put(1, &put(3, b"here"));
    let said = [next, put(2, b"Failure"), put(3, b"no"), put(4, b"Expired")].concat();
    let status = [said, put(5, &details), code].concat();
    let body = [MAGIC.to_vec(), put(1, b"type"), put(2, &status)].concat();
    let status: nodelife_core::object::Status = object(&body, &schema::STATUS).unwrap();
    assert_eq!((&*status.message, &*status.reason), ("no", "Expired"));
    assert_eq!(status.code, 410);
    assert_eq!(status.metadata.next.as_deref(), Some("here"));
    let details = status.details.as_ref().unwrap();
    assert_eq!((&*details.kind, details.retry_after_seconds), ("pods", 7));
    assert_eq!(status.cause("Why").unwrap().message, "so");
}

#[test]
fn reads_head_and_items() {
    let page = page();
    let head = head(&page).unwrap();
    assert_eq!((&*head.resource_version, &*head.next), ("7", "more"));
    assert_eq!(head.remaining, Some(9));
    let mut leases = Vec::new();
    let mut lease = |item: Encoded<'_>| leases.push(item.decode::<Lease>(&schema::LEASE).unwrap());
    items(&page, &mut lease).unwrap();
    assert_eq!(leases[0].metadata.name, "n1");
    assert_eq!(leases[0].spec.lease_duration_seconds, Some(40));
    let renewed = leases[0].spec.renew_time.unwrap();
    assert_eq!(renewed.as_second(), 5);
}

#[test]
fn list_metadata_is_read_before_the_first_item() {
    let whole = page();
    let name = whole.windows(2).position(|two| two == b"n1").unwrap();
    assert_eq!(head(&whole[..name]).unwrap(), head(&whole).unwrap());
}

#[test]
fn truncated_or_corrupt_input_does_not_panic() {
    let whole = page();
    for length in 0..whole.len() {
        let cut = whole.slice(..length);
        // While a page comes in, its head is read as soon as all of it is here, and not before.
        if let Ok(begun) = head(&cut) {
            assert_eq!(begun, head(&whole).unwrap());
        }
        assert!(items(&cut, &mut |_| {}).is_err());
    }
    for place in 0..whole.len() {
        for bit in 0..8 {
            let mut flipped = whole.to_vec();
            flipped[place] ^= 1 << bit;
            let _ = head(&flipped);
            let _ = items(&flipped, &mut |item| {
                let _ = item.read::<Lease>(&schema::LEASE);
            });
        }
    }
}

#[test]
fn an_object_that_does_not_decode_hides_no_other() {
    let item = |name: &[u8], seconds: &[u8]| {
        let spec = [put(1, b"\xffn"), seconds.to_vec()].concat();
        put(2, &[put(1, &put(1, name)), put(2, &spec)].concat())
    };
    // The second has bytes in the place of a number.
    let list = [
        item(b"a", &[0x10, 40]),
        item(b"b", &put(2, b"x")),
        item(b"c", &[]),
    ]
    .concat();
    let page = [MAGIC.to_vec(), put(2, &list)].concat();
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    items(
        &page,
        &mut |item| match item.read::<Lease>(&schema::LEASE) {
            Ok(lease) => read.push((lease.metadata.name, lease.spec.holder_identity)),
            Err(outline) => unread.push(outline.to_string()),
        },
    )
    .unwrap();
    // Go stores text that is no UTF-8.
    let holder = || Some("\u{fffd}n".into());
    assert_eq!(read, [("a".into(), holder()), ("c".into(), holder())]);
    assert_eq!(unread, ["b: bytes where a number belongs"]);
}

#[test]
fn an_unrepresentable_time_is_clamped() {
    // 9999-12-31T23:59:59Z, which the API server takes.
    let seconds: i64 = 253_402_300_799;
    let mut message = vec![0x08];
    let mut rest = seconds.cast_unsigned();
    while rest >= 0x80 {
        message.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
        rest >>= 7;
    }
    message.push(u8::try_from(rest).unwrap());
    let last = jiff::Timestamp::MAX.as_second();
    let read: jiff::Timestamp = time(&message).unwrap().unwrap().parse().unwrap();
    assert_eq!(read.as_second(), last);
}

#[test]
fn json_is_not_taken_for_protobuf() {
    let page = Bytes::from_static(b"{}");
    let error = items(&page, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("k8s"), "{error}");
}
