// The evidence command, on a fresh build: everything that it needs is there before it begins, or it says what is missing.
import { command } from "./command.mjs";
import { haveSystemPackages } from "./system-packages.mjs";

const packages = ["etcd-client", "etcd-server", "faketime", "git", "postgresql", "strace"];

const missing = process.argv.includes("--help")
  ? null
  : haveSystemPackages(packages, "The evidence needs them");
if (missing !== null) {
  console.error(missing);
  process.exit(1);
}
if (!command("build", process.execPath, ["scripts/build.mjs"])) process.exit(1);
await import("../dist/test/evidence/main.js");
