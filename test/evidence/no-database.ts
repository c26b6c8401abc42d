// Faults and sections that are about a database between servers, for engines that have none.
const why = "no other server shares its data";

export const noDatabase: Readonly<Record<string, string>> = {
  "database-restart": why,
  "database-stop": why,
  "database-partition": why,
  backends: why,
  "database-clock": why,
  cluster: why,
};
