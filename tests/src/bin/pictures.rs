//! `cargo run -p nodelife-tests --bin pictures`: regenerates docs/pictures; the drains run in a
//! cluster of their own (a minute, once the control plane's programs are built).

use std::io::{self, Write};

use anyhow::Result;
use nodelife_tests::picture;

#[tokio::main]
async fn main() -> Result<()> {
    let mut pictures = picture::stills()?;
    pictures.extend(picture::drain::pictures().await?);
    for picture in pictures {
        picture.write()?;
        writeln!(io::stdout(), "docs/pictures/{}", picture.file)?;
    }
    Ok(())
}
