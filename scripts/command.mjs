// One step of a script: a command with its output shown.
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** Runs it in the repository; true when it ended with 0. */
export function command(title, file, args, env = {}) {
  console.log(`> ${title}: ${[file, ...args].join(" ").replace(`${process.execPath} `, "node ")}`);
  const { status, error } = spawnSync(file, args, {
    cwd: root,
    stdio: "inherit",
    env: { ...process.env, ...env },
  });
  if (error) console.log(error.message);
  return status === 0;
}
