// Stands in for ssh between a clone and its remote, which is a directory here, and does to a push what bad networks do.
//   node git-ssh.js FATES HOST "git-receive-pack '/path'"
// FATES is a file with one word per connection to come; none left: it passes. Looks are struck by `away` only.
//   pass        as it is                 lose-reply  the remote does it, and nobody is told
//   cut         it never arrives         hang        the remote does it, and the connection stands open, silent
//   away        the remote is not reached
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

export type Fate = "pass" | "lose-reply" | "cut" | "hang" | "away";

const [fates, , command = ""] = process.argv.slice(2);
if (fates !== undefined && /git-ssh\.js$/.test(process.argv[1] ?? "")) connect(fates);

function connect(file: string): void {
  const isPush = command.startsWith("git-receive-pack");
  const fate = fateFor(file, isPush);
  if (fate === "away") {
    process.stderr.write("ssh: connect to host: No route to host\n");
    process.exit(255);
  }
  const [, program = "", path = ""] = /^git-(\S+) '(.*)'$/.exec(command) ?? [];
  const server = spawn("git", [program, path], { stdio: ["pipe", "pipe", "inherit"] });
  server.stdin.on("error", () => undefined);
  let isHeard = true;
  process.stdin.on("data", (chunk: Buffer) => {
    // What comes from the caller's side after the greeting is the push itself.
    if (fate !== "pass") isHeard = false;
    if (fate === "cut") {
      server.kill("SIGKILL");
      process.exit(255);
    }
    server.stdin.write(chunk);
  });
  process.stdin.on("end", () => server.stdin.end());
  server.stdout.on("data", (chunk: Buffer) => {
    if (isHeard) process.stdout.write(chunk);
  });
  server.on("close", (code) => {
    if (fate === "hang") setInterval(() => undefined, 1_000_000);
    else process.exit(fate === "pass" ? (code ?? 1) : 255);
  });
}

/** The next one; the last stays if it is repeated for ever with a `*`. */
function fateFor(file: string, isPush: boolean): Fate {
  const words = readFileSync(file, "utf8").split("\n").filter(Boolean);
  const [first = "pass", ...rest] = words;
  if (first.endsWith("*")) return first === "away*" || isPush ? (first.slice(0, -1) as Fate) : "pass";
  if (!isPush && first !== "away") return "pass";
  writeFileSync(file, rest.join("\n"));
  return first as Fate;
}
