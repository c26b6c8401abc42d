// Who may speak with etcd, and by which way: TLS with certificates on both sides, users with passwords, endpoints that hang.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { openStore } from "../src/engines/open.js";
import { isStoreError } from "./conformance.js";
import { startEtcd } from "./etcd-lab.js";
import { Postgres } from "./postgres-lab.js";
import { startServer } from "./server.js";
import { bump, scratch, tokenOf, until } from "./store-lab.js";

/** A certificate authority, and what it has signed for a server on 127.0.0.1 and for a client. */
function certificates(dir: string) {
  const openssl = (...args: readonly string[]): void =>
    void execFileSync("openssl", args, { cwd: dir, stdio: "pipe" });
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  openssl("req", "-x509", ...key, "-subj", "/CN=ca", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem");
  writeFileSync(
    join(dir, "ext"),
    "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\nkeyUsage=digitalSignature",
  );
  for (const name of ["server", "client"]) {
    openssl("req", ...key, "-subj", `/CN=${name}`, "-keyout", `${name}.key`, "-out", `${name}.csr`);
    openssl(
      ...["x509", "-req", "-in", `${name}.csr`, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"],
      ...["-days", "2", "-extfile", "ext", "-out", `${name}.pem`],
    );
  }
  return (name: string): string => join(dir, name);
}

test("TLS: the server is known by its authority, and a client by its certificate", async (t) => {
  const file = certificates(scratch(t));
  const lab = await startEtcd({
    tls: { cert: file("server.pem"), key: file("server.key"), ca: file("ca.pem") },
  });
  t.after(() => lab.stop());
  const url = lab.url();
  const store = await openStore(
    `${url}&ca=${file("ca.pem")}&cert=${file("client.pem")}&key=${file("client.key")}`,
  );
  assert.equal(await bump(store, "a"), 1);
  await store.close();
  const ca = `&ca=${file("ca.pem")}`;
  for (const [place, says] of [
    [url, /closed the connection: .* If it speaks TLS, add tls=1 or ca=FILE/],
    [`${url}&tls=1`, /an authority that is not known here .*: name the file of that authority as ca/],
    [`${url}${ca}`, /asks for a certificate .*cert and key|did not agree on TLS .*cert and key/],
    [`${url.replace("127.0.0.1", "localhost")}${ca}`, /certificate for another name .*: use a host/],
  ] as const)
    await refusedAt(place, lab.member(0).port, says);
});

/** One sentence that names the member, and what to do. */
async function refusedAt(place: string, port: number, says: RegExp): Promise<void> {
  await assert.rejects(openStore(place), (error) => {
    assert.ok(isStoreError("unavailable")(error), String(error));
    assert.match(String(error), says);
    assert.match(String(error), new RegExp(`(127\\.0\\.0\\.1|localhost):${port}\\b`));
    assert.doesNotMatch(String(error), /\n|routines/);
    return true;
  });
}

test("what is not there, or is no etcd, is told by its address, with what may be wrong", async (t) => {
  const [lab, postgres, web] = await Promise.all([startEtcd(), Postgres.start(), startServer()]);
  t.after(() => Promise.all([lab.stop(), postgres.stop(), web.stop()]));
  const { port } = lab.member(0);
  const isEtcd = /: is it etcd, and is that its port for clients/;
  for (const [at, settings, says] of [
    [1, "", /cannot be reached .*: is etcd running there, and are host and port in the store's URL right\?/],
    [port, "?tls=1", /did not agree on TLS .*: if etcd has no TLS there, take tls, ca and cert out/],
    [web.port, "?tls=1", /did not agree on TLS .*: if etcd has no TLS there/],
    [postgres.port, "", isEtcd],
    [web.port, "", isEtcd],
  ] as const)
    await refusedAt(`etcd://127.0.0.1:${at}/${settings}`, at, says);
  await assert.rejects(openStore("etcd://nowhere.invalid"), /nowhere\.invalid:2379 .*correct the host/);
});

test("a user with a password, who may touch the prefix only; a token that is no longer good is replaced", async (t) => {
  const lab = await startEtcd();
  t.after(() => lab.stop());
  lab.ctl("user", "add", "root:rootpw");
  lab.ctl("user", "grant-role", "root", "root");
  lab.ctl("role", "add", "holdfast");
  lab.ctl("role", "grant-permission", "--prefix=true", "holdfast", "readwrite", "hf/");
  lab.ctl("user", "add", "worker:s@cret");
  lab.ctl("user", "grant-role", "worker", "holdfast");
  lab.ctl("auth", "enable");
  const at = (login: string, prefix: string): string =>
    `etcd://${login}${lab.endpoints}/?prefix=${encodeURIComponent(prefix)}`;
  const store = await openStore(at("worker:s%40cret@", "hf/"));
  assert.equal(await bump(store, "a"), 1);
  assert.doesNotMatch(store.facts.location, /cret/);
  const refused = (says: RegExp) => (error: unknown) =>
    isStoreError("unavailable")(error) && says.test(String(error)) && !/cret|wrong/.test(String(error));
  await assert.rejects(openStore(at("worker:wrong@", "hf/")), refused(/user and password/));
  await assert.rejects(openStore(at("", "hf/")), refused(/user/));
  await assert.rejects(openStore(at("worker:s%40cret@", "other/")), refused(/readwrite on the prefix/));
  // Tokens are the member's own, and forgotten when it ends.
  const member = lab.member(0);
  await member.kill();
  member.start();
  await until(() =>
    bump(store, "a").then(
      () => true,
      () => false,
    ),
  );
  assert.ok((await tokenOf(store, "a")) >= 2);
  await store.close();
});

/** Passes everything on to `port` until it is told to swallow it. */
async function proxy(port: number) {
  const state = { isHung: false };
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(port, "127.0.0.1");
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on("data", (data) => {
        if (!state.isHung) to.write(data);
      });
      from.on("error", () => undefined);
      from.on("close", () => {
        sockets.delete(from);
        if (!state.isHung) to.destroy();
      });
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = (): void => {
    for (const socket of sockets) socket.destroy();
    server.close();
  };
  return { state, close, port: (server.address() as { port: number }).port };
}

test("an endpoint that swallows everything is left for another; alone, it ends every call in time", async (t) => {
  const lab = await startEtcd();
  t.after(() => lab.stop());
  const { state, close, port } = await proxy(lab.member(0).port);
  t.after(close);
  const both = await openStore(`etcd://127.0.0.1:${port},${lab.endpoints}/?prefix=p/`);
  const alone = await openStore(`etcd://127.0.0.1:${port}/?prefix=p/`);
  assert.equal(await bump(both, "a"), 1);
  assert.equal(await bump(alone, "a"), 2);
  state.isHung = true;
  const begun = performance.now();
  await until(() =>
    bump(both, "b").then(
      () => true,
      () => false,
    ),
  );
  assert.ok(performance.now() - begun < 7_000);
  const calls = [bump(alone, "a"), tokenOf(alone, "a"), alone.ping(), bump(alone, "c")];
  const ends = await Promise.allSettled(calls);
  assert.ok(performance.now() - begun < 20_000);
  for (const end of ends)
    assert.ok(end.status === "rejected" && /unavailable|unknown/.test(end.reason.kind), JSON.stringify(end));
  await assert.rejects(openStore(`etcd://127.0.0.1:${port}/?prefix=p/`), isStoreError("unavailable"));
  const opened = await openStore(`etcd://127.0.0.1:${port},${lab.endpoints}/?prefix=p/`);
  await opened.close();
  state.isHung = false;
  await until(() =>
    bump(alone, "a").then(
      () => true,
      () => false,
    ),
  );
  await both.close();
  await alone.close();
});
