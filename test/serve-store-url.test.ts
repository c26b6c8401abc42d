// A store's URL that makes no sense is a wrong setting: `serve` names the setting, says what to do, and ends with exit code 2. One that
// cannot be reached is not: that is 5.
import assert from "node:assert/strict";
import { test } from "node:test";
import { temporaryDir } from "./server.js";
import { holdfast } from "./system-program.js";

const rows: [store: string, code: number, said: RegExp][] = [
  ["postgres://u:secret-word@127.0.0.1/x?conections=4", 2, /--store: conections is no setting/],
  ["postgres://u:secret-word@127.0.0.1/x?deadline_ms=5", 2, /--store: deadline_ms=5 is not a whole number/],
  ["postgres://u:secret-word@h1:1,h2:2/x", 2, /--store: a postgres URL names one host/],
  ["postgres://u:secret-word#x@127.0.0.1/x", 2, /--store: user or password has a character .*%23/],
  ["etcd://127.0.0.1:1/?prefx=a", 2, /--store: etcd: "prefx" is no setting/],
  ["etcd://u:secret-word@10.255.255.1:2379", 2, /--store: etcd: a password over a plain connection/],
  ["mysql://u:secret-word@127.0.0.1/x", 2, /--store mysql:.* is no store/],
  ["postgres://u:secret-word@127.0.0.1:1/x", 5, /cannot be reached: is it running/],
  ["etcd://127.0.0.1:1", 5, /127\.0\.0\.1:1 cannot be reached .*: is etcd running there/],
];

for (const [store, code, said] of rows)
  test(`${store} ends serve with ${code}`, async () => {
    const dir = temporaryDir("holdfast-store-");
    const ended = await holdfast(["serve", "--store", store, "--port", "0"], { cwd: dir });
    assert.equal(ended.code, code, ended.text);
    assert.match(ended.stderr, said);
    assert.doesNotMatch(ended.text, /secret-word/);
  });

test("a URL in the environment is told of by the variable's name", async () => {
  const env = { HOLDFAST_STORE: "etcd://127.0.0.1:1/?prefx=a", HOLDFAST_PORT: "0" };
  const ended = await holdfast(["serve"], { env, cwd: temporaryDir("holdfast-store-") });
  assert.equal(ended.code, 2, ended.text);
  assert.match(ended.stderr, /HOLDFAST_STORE: etcd: "prefx" is no setting/);
});
