import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { scratch } from "../../../test/store-lab.js";
import { StoreError } from "../../store/store.js";
import { readEtcdUrl } from "./url.js";

test("hosts, user and settings are read; people are shown no password", () => {
  const place = readEtcdUrl("//bob:s%40cret@127.0.0.1:23,localhost/?prefix=a/&max_txn_ops=512&lanes=2");
  assert.deepEqual(
    place.endpoints.map(({ authority }) => authority),
    ["127.0.0.1:23", "localhost:2379"],
  );
  assert.deepEqual(place.user, { name: "bob", password: "s@cret" });
  assert.deepEqual([place.prefix, place.opsMax, place.lanesMax], ["a/", 512, 2]);
  assert.doesNotMatch(place.location, /cret|bob/);
  assert.equal(readEtcdUrl("//[::1]").endpoints[0]?.authority, "[::1]:2379");
  assert.equal(readEtcdUrl("//db").prefix, "holdfast/");
});

test("certificates are read from files", (t) => {
  const dir = scratch(t);
  for (const name of ["ca", "cert", "key"]) writeFileSync(join(dir, name), name);
  const files = ["ca", "cert", "key"].map((name) => `${name}=${join(dir, name)}`).join("&");
  const { tls } = readEtcdUrl(`//u:p@db:1?${files}`).endpoints[0] ?? assert.fail();
  assert.deepEqual([tls?.ca, tls?.cert, tls?.key].map(String), ["ca", "cert", "key"]);
  assert.notEqual(readEtcdUrl("//db?tls=1").endpoints[0]?.tls, null);
  assert.equal(readEtcdUrl("//u:p@db?tls=0").endpoints[0]?.tls, null);
});

const wrong: readonly (readonly [url: string, says: RegExp])[] = [
  ["", /write etcd:/],
  ["//", /write etcd:/],
  ["//a/path", /write etcd:/],
  ["//a b", /is no host/],
  ["//a,,b", /is no host/],
  ["//a:0", /is no host/],
  ["//a:99999", /is no host/],
  ["//secret@a", /user:password/],
  ["//u:%zz@127.0.0.1", /%25/],
  ["//u:secret@db", /plain connection/],
  ["//a?x=1", /"x" is no setting/],
  ["//a?tls=maybe", /tls must be/],
  ["//a?cert=/x", /go together/],
  ["//a?tls=0&ca=/x", /opposite/],
  ["//a?ca=/no/such/file", /cannot be read/],
  ["//a?max_txn_ops=3", /max_txn_ops/],
  ["//a?lanes=x", /lanes/],
  ["//a?prefix=", /prefix/],
];

for (const [url, says] of wrong)
  test(`etcd:${url} is refused in words, without the password`, () => {
    assert.throws(
      () => readEtcdUrl(url),
      (error) =>
        error instanceof StoreError &&
        error.kind === "unsupported" &&
        says.test(error.message) &&
        !error.message.includes("secret"),
    );
  });
