// `holdfast run` at a terminal: an interactive shell under a pseudo-terminal (util-linux's `script`), keys typed into it,
// and what appears on the screen. Ctrl-C, Ctrl-Z and fg, a command that reads the terminal, the line that shows the wait.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { isFree, lockOf, start, until } from "./cli-run-lab.js";
import { mainFile, type Server, startServer } from "./server.js";

const ctrlC = "\x03";
const ctrlZ = "\x1a";
/** To the line's beginning, and the rest of it cleared. */
const redraw = "\r\x1b[K";

/** An interactive shell at a terminal of its own. */
class Terminal implements AsyncDisposable {
  readonly #child;
  #screen = "";

  constructor(url: string) {
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("HOLDFAST_"));
    this.#child = spawn("script", ["-qefc", "bash --norc --noprofile --noediting -i", "/dev/null"], {
      env: {
        ...Object.fromEntries(inherited),
        HOLDFAST_URL: url,
        HOLDFAST_TOKEN: "secret-a",
        TERM: "xterm",
      },
      cwd: "/",
      stdio: ["pipe", "pipe", "ignore"],
      detached: true,
    });
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.#screen += text;
    });
  }

  /** What has appeared so far, since the last `clear`. */
  get screen(): string {
    return this.#screen;
  }

  clear(): void {
    this.#screen = "";
  }

  type(keys: string): void {
    this.#child.stdin.write(keys);
  }

  async shows(text: string | RegExp): Promise<void> {
    const isThere = (): boolean =>
      typeof text === "string" ? this.#screen.includes(text) : text.test(this.#screen);
    await until(`${text} on the screen`, isThere).catch((error: Error) => {
      throw new Error(`${error.message}\n${JSON.stringify(this.#screen)}`);
    });
  }

  async prompt(): Promise<void> {
    await this.shows(/ready> $/);
  }

  /** Types a command of the shell. What it is to show must not stand in it: the terminal shows what is typed, too. */
  async enter(line: string): Promise<void> {
    await this.prompt();
    this.clear();
    this.type(`${line}\n`);
  }

  /** The exit code of what ran last. */
  async code(): Promise<number> {
    await this.enter('echo "code=$?="');
    await this.shows(/code=\d+=/);
    return Number(/code=(\d+)=/.exec(this.screen)?.[1]);
  }

  /** The line is cut, as by a window that is closed. */
  hangUp(): void {
    this.#child.kill("SIGKILL");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
  }
}

describe("holdfast run at a terminal", () => {
  let server: Server;
  const holdfast = `'${process.execPath}' '${mainFile}'`;
  const run = (name: string, script: string, more = ""): string =>
    `${holdfast} run ${name} ${more} -- sh -c '${script}'`;
  before(async () => {
    server = await startServer();
  });
  after(() => server[Symbol.asyncDispose]());

  const open = async (): Promise<Terminal> => {
    const terminal = new Terminal(server.url);
    await terminal.shows(/[#$] $/);
    terminal.type("PS1='ready> '; stty cols 200\n");
    return terminal;
  };

  test("Ctrl-C reaches the command once; the program survives it, and releases", async () => {
    await using terminal = await open();
    // What it says must not stand in what is typed.
    const script =
      'trap "echo g\\"\\"ot" INT; echo u""p; for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; done; exit 5';
    await terminal.enter(run("ctrl-c", script));
    await terminal.shows("up\r\n");
    terminal.type(ctrlC);
    await terminal.prompt();
    assert.equal(terminal.screen.match(/got\r\n/g)?.length, 1, JSON.stringify(terminal.screen));
    assert.equal(await terminal.code(), 5);
    assert.ok(await isFree(server, "ctrl-c"));
  });

  test("Ctrl-C of a command that does not catch it: 130", async () => {
    await using terminal = await open();
    await terminal.enter(run("ctrl-c-plain", 'echo u""p; exec sleep 60'));
    await terminal.shows("up\r\n");
    terminal.type(ctrlC);
    assert.equal(await terminal.code(), 130);
    assert.ok(await isFree(server, "ctrl-c-plain"));
  });

  test("Ctrl-Z for longer than the TTL, then fg: the lease is kept, and the command goes on", async () => {
    await using terminal = await open();
    await terminal.enter(run("ctrl-z", 'echo u""p; read line; echo "read:$line:"; exit 4', "--ttl 2s"));
    await terminal.shows("up\r\n");
    const { fencing_token: token } = await lockOf(server, "ctrl-z");
    terminal.type(ctrlZ);
    await terminal.shows("Stopped");
    await delay(5000);
    assert.equal((await lockOf(server, "ctrl-z")).status, "held");
    await terminal.enter("fg");
    await delay(1000);
    terminal.type("hello\n");
    await terminal.shows("read:hello:");
    assert.equal(await terminal.code(), 4);
    assert.equal((await lockOf(server, "ctrl-z")).fencing_token, token);
    assert.ok(await isFree(server, "ctrl-z"));
  });

  test("in the background, then fg", async () => {
    await using terminal = await open();
    await terminal.enter(`${run("background", 'read line; echo "read:$line:"')} &`);
    await terminal.enter("");
    await until("held", async () => !(await isFree(server, "background")));
    await terminal.enter("fg");
    await delay(500);
    terminal.type("late\n");
    await terminal.shows("read:late:");
    assert.equal(await terminal.code(), 0);
  });

  test("a command that reads /dev/tty, though its input is a file", async () => {
    await using terminal = await open();
    await terminal.enter(
      `${run("dev-tty", 'echo u""p; read line < /dev/tty; echo "read:$line:"')} < /dev/null`,
    );
    await terminal.shows("up\r\n");
    terminal.type("secret\n");
    await terminal.shows("read:secret:");
    assert.equal(await terminal.code(), 0);
  });

  test("a command that sets the terminal finds it as it left it", async () => {
    await using terminal = await open();
    const script =
      'stty -echo; read line; stty echo; echo "read:$line:"; test -t 0 && test -t 1 && test -t 2';
    await terminal.enter(run("stty", script));
    await until("held", async () => !(await isFree(server, "stty")));
    await delay(1000);
    terminal.clear();
    terminal.type("hidden\n");
    await terminal.shows("read:hidden:");
    assert.equal(terminal.screen.match(/hidden/g)?.length, 1);
    assert.equal(await terminal.code(), 0);
  });

  test("SIGTERM to the program reaches the command; SIGINT from elsewhere, too, if it is in the background", async () => {
    await using terminal = await open();
    for (const signal of ["TERM", "INT"]) {
      const script = `trap "echo g\\"\\"ot; exit 6" ${signal}; echo u""p; while :; do sleep 0.1; done`;
      await terminal.enter(`${run("elsewhere", script)} & wait $!; sleep 1`);
      await terminal.shows("up\r\n");
      const pid = /\[\d+\] (\d+)/.exec(terminal.screen)?.[1];
      process.kill(Number(pid), `SIG${signal}`);
      await terminal.shows("got\r\n");
      await until("free", () => isFree(server, "elsewhere"));
    }
  });

  test("the wait is one line, drawn again; Ctrl-C ends it with 130 and leaves nothing", async () => {
    await using terminal = await open();
    const other = start(server, ["run", "busy", "--", "sleep", "600"], { token: "secret-b" });
    await until("held", async () => !(await isFree(server, "busy")));
    await terminal.enter(run("busy", "true", "--wait 5m"));
    await terminal.shows(`${redraw}Waiting for busy: held by runner-2`);
    await terminal.shows(/for \d+s, place 1 of 1 in line, expires in \d+s unless renewed/);
    await until("drawn again", () => terminal.screen.split(`${redraw}Waiting for busy`).length > 3);
    assert.doesNotMatch(terminal.screen, /Waiting[^\r]*\n/);
    terminal.type(ctrlC);
    await terminal.shows("holdfast: interrupted while waiting for busy: nothing was run\r\n");
    assert.ok(terminal.screen.includes(`${redraw}holdfast: interrupted`), JSON.stringify(terminal.screen));
    assert.equal(await terminal.code(), 130);
    await until("nobody waits", async () => (await lockOf(server, "busy")).waiters === 0);
    other.child.kill("SIGTERM");
    await other.ended;
    assert.ok(await isFree(server, "busy"));
  });

  test("kill -9 of the program: the command is ended, and the shell goes on", async () => {
    await using terminal = await open();
    await terminal.enter(run("killed", 'trap "" TERM INT HUP; echo pid:$PPID:; while :; do sleep 0.1; done'));
    await terminal.shows(/pid:\d+:/);
    process.kill(Number(/pid:(\d+):/.exec(terminal.screen)?.[1]), "SIGKILL");
    await until("free", () => isFree(server, "killed"));
    assert.equal(await terminal.code(), 137);
  });

  test("the terminal is closed: the command is ended and the lease released", async () => {
    await using terminal = await open();
    await terminal.enter(run("closed", 'echo u""p; while :; do sleep 0.1; done'));
    await terminal.shows("up\r\n");
    terminal.hangUp();
    await until("free", () => isFree(server, "closed"));
  });
});
