// The contract of a store on PostgreSQL, over two handles with connections of their own.
import { after, before } from "node:test";
import { openPostgres } from "../src/engines/postgres/open.js";
import { conformance } from "./conformance.js";
import { Postgres } from "./postgres-lab.js";

let server: Postgres;
let url: string;
let schemas = 0;

before(async () => {
  server = await Postgres.start();
  url = await server.database();
});
after(() => server.stop());

conformance("PostgreSQL", async () => {
  const place = `${url}?schema=t${++schemas}`;
  const [one, two] = [await openPostgres(place), await openPostgres(place)];
  return {
    one,
    two,
    close: async () => {
      await one.close();
      await two.close();
    },
  };
});
