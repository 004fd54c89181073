//! The lines of docs/webhook.md that install the webhook from a file.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use nodelife_tests::installation::manifests;
use nodelife_tests::kubectl::{plugin_path, run};
use nodelife_tests::program::GoProgram;
use nodelife_tests::real_nodes::{ProgramImage, RealNodes, is_left_out};
use nodelife_tests::{ControlPlane, Identity, until};
use tokio::process::Command;

const IMAGE: &str = "localhost/nodelife-webhook:0.1.0";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_lines_for_k3s_end_with_a_sound_installation() {
    if is_left_out() {
        return;
    }
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/webhook.md");
    let page = fs::read_to_string(page).unwrap();
    let mut blocks = page.split("```sh\n").skip(1);
    let lines = blocks.find(|block| block.contains("k3s ctr")).unwrap();
    let (lines, _) = lines.split_once("```").unwrap();
    let lines = lines.strip_prefix(".ci/image\n").unwrap();
    let (install, status) = lines.trim_end().rsplit_once('\n').unwrap();

    let cluster = RealNodes::start(ControlPlane::options(), 1).await.unwrap();
    let folder = tempfile::tempdir_in(cluster.plane.folder()).unwrap();
    let root = folder.path();
    let images = root.join("target/image");
    fs::create_dir_all(&images).unwrap();
    let image = ProgramImage::WEBHOOK.write_as(&images, IMAGE).unwrap();
    fs::rename(image, images.join("nodelife-webhook-0.1.0.tar")).unwrap();
    symlink(manifests(), root.join("manifests")).unwrap();
    let programs = root.join("bin");
    fs::create_dir(&programs).unwrap();
    symlink(GoProgram::Kubectl.path().unwrap(), programs.join("kubectl")).unwrap();
    script(&programs.join("sudo"), "exec \"$@\"");
    // The containerd of k3s has a namespace for the kubelet, which `k3s ctr` takes by itself.
    let node = cluster.nodes()[0].enter().await.unwrap().join(" ");
    let ctr = "cd \"$0\" && exec ctr --namespace=k8s.io \"$@\"";
    let k3s = format!("shift; exec {node} sh -c '{ctr}' \"$PWD\" \"$@\"");
    script(&programs.join("k3s"), &k3s);

    let kubeconfig = cluster.plane.kubeconfig_file(&Identity::Admin).unwrap();
    let shell = async |lines: &str| {
        let path = plugin_path().unwrap().into_string().unwrap();
        let mut shell = Command::new("bash");
        shell.args(["-euxc", lines]).current_dir(root);
        shell.env("PATH", format!("{}:{path}", programs.display()));
        shell.env("KUBECONFIG", &kubeconfig).env("HOME", root);
        run(shell, "").await?.success()
    };
    shell(install).await.unwrap();
    // The certificate is in the configuration a moment after the first pod has it.
    until("a sound installation", async || {
        Ok(Some(shell(status).await?))
    })
    .await;
}

fn script(file: &Path, line: &str) {
    fs::write(file, format!("#!/bin/sh\n{line}\n")).unwrap();
    fs::set_permissions(file, Permissions::from_mode(0o755)).unwrap();
}
