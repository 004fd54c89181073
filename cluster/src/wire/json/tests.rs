use super::*;

const PAGE: &str = r#"{"kind":"NodeList","metadata":{"resourceVersion":"5","continue":"x",
    "remainingItemCount":7},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}"#;

#[test]
fn reads_head_and_items() {
    let head = head(PAGE.as_bytes()).unwrap();
    assert_eq!((&*head.next, head.remaining), ("x", Some(7)));
    let mut names = Vec::new();
    items(PAGE.as_bytes(), &mut |item| {
        let node: nodelife_core::object::Node = item.decode(&[]).unwrap();
        names.push(node.metadata.name.to_string());
    })
    .unwrap();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_cut_page_says_where() {
    let cut = &PAGE.as_bytes()[..PAGE.len() - 4];
    let error = items(cut, &mut |_| {}).unwrap_err();
    assert!(error.to_string().contains("line 2 column"), "{error}");
}

#[test]
fn null_is_an_empty_list() {
    items(br#"{"items":null}"#, &mut |_| panic!("an item")).unwrap();
}
