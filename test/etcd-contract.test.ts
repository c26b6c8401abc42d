// The contract of a store on a real etcd of one member, over two handles of servers that know nothing of each other.
import { after } from "node:test";
import { openStore } from "../src/engines/open.js";
import { conformance } from "./conformance.js";
import { startEtcd } from "./etcd-lab.js";

const lab = await startEtcd();
after(() => lab.stop());

conformance("etcd", async () => {
  const url = lab.url();
  const [one, two] = [await openStore(url), await openStore(`${url}&lanes=1`)];
  return {
    one,
    two,
    close: async () => {
      await one.close();
      await two.close();
    },
  };
});
