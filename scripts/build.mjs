// Compiles src, test and bench, bundles the program out of that, makes it executable, and puts the result in the place of
// dist/ at once: whoever runs the program meanwhile finds the old one or the new one, never half of it.
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, renameSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { bundle } from "./bundle.mjs";

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
try {
  if (tsc.status === 0) {
    await bundle(root, made);
    for (const file of ["src/main.js", "bin/holdfast.cjs"]) chmodSync(`${made}/${file}`, 0o755);
    if (existsSync(`${root}dist`)) renameSync(`${root}dist`, old);
    renameSync(made, `${root}dist`);
  }
  process.exitCode = tsc.status ?? 1;
} finally {
  for (const directory of [made, old]) rmSync(directory, { recursive: true, force: true });
}
