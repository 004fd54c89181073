//! The pictures of the examples in docs/ are up to date.

use std::fs;
use std::path::Path;

use nodelife_tests::picture::{self, FOLDER};

#[test]
fn the_examples_match_their_pictures() {
    let stills = picture::stills().unwrap();
    assert_eq!(stills.len(), 6);
    for still in stills {
        let path = Path::new(FOLDER).join(&still.file);
        if std::env::var_os("NODELIFE_UPDATE_DOCS").is_some() {
            still.write().unwrap();
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == still.content,
            "{} is out of date: run `NODELIFE_UPDATE_DOCS=1 cargo test -p nodelife-tests --test it \
             pictures` and look at it",
            path.display()
        );
    }
}
