//! `sjail mcp` and the protocol's own TypeScript clients, which the runner puts in place
//! (`SJAIL_TEST_MCP_NODE` names a folder with their packages).

use std::path::PathBuf;

use sjail_tests::{Scene, Test, Verdict, tests};

use crate::desk::Desk;

pub fn tests() -> Vec<Test> {
    tests![
        typescript_client_uses_every_tool,
        typescript_client_before_it
    ]
    .into_iter()
    .map(|test| test.timeout(300))
    .collect()
}

/// secure-sandbox 118-177 (page 91-119): every tool that an agent has, each answer checked by the client
/// against the schema that the server gave for it.
fn typescript_client_uses_every_tool(scene: &Scene) -> Verdict {
    every_tool(scene, "@modelcontextprotocol/client")
}

fn typescript_client_before_it(scene: &Scene) -> Verdict {
    every_tool(scene, "@modelcontextprotocol/sdk")
}

fn every_tool(scene: &Scene, package: &str) -> Verdict {
    scene.needs(&["node"])?;
    let packages = PathBuf::from(std::env::var_os("SJAIL_TEST_MCP_NODE").unwrap_or_default());
    if !packages.join("node_modules").join(package).exists() {
        return scene.skip(format!("the node package `{package}` is not installed"));
    }
    let _desk = Desk::at(scene);
    let script = scene.outside_file("client.mjs", include_str!("typescript.mjs"))?;
    scene
        .host("node")
        .args([script, scene.program("sjail"), packages, package.into()])
        .output()?
        .succeeds()?
        .stdout_is(
            "sjail true\n\
             pong\n\
             10 true\n\
             dangerous Recursive deletion,Wildcard pattern queue_for_approval\n\
             false completed production 0\n\
             true 42\n\
             two\n\
             pending true\n\
             sandbox_queue_list false true\n\
             sandbox_audit_log false true\n\
             sandbox_audit_stats false true\n\
             sandbox_allowlist_test false true\n\
             sandbox_exec true string\n\
             sandbox_exec true string\n\
             sandbox_exec true string\n\
             read true string\n\
             sandbox_queue_approve -32602\n\
             nonsense -32602\n\
             called off true\n\
             still here\n\
             closed\n",
        )?;
    Ok(())
}
