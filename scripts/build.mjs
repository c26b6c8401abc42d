// Compiles src, test and bench (one step, no bundler), makes the program executable, and puts the result in the place of
// dist/ at once: whoever runs the program meanwhile finds the old one or the new one, never half of it.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, renameSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const made = `${root}dist-${process.pid}`;
const old = `${root}dist-${process.pid}-old`;
const tsc = spawnSync(
  process.execPath,
  [`${root}node_modules/typescript/bin/tsc`, "-p", root, "--outDir", made],
  {
    stdio: "inherit",
  },
);
if (tsc.status === 0) {
  chmodSync(`${made}/src/main.js`, 0o755);
  if (existsSync(`${root}dist`)) renameSync(`${root}dist`, old);
  renameSync(made, `${root}dist`);
}
for (const directory of [made, old]) rmSync(directory, { recursive: true, force: true });
process.exitCode = tsc.status ?? 1;
