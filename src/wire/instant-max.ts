/** The last instant that RFC 3339 can write, in ms of Unix time. What lies beyond is shown as this. */
export const instantMax = Date.parse("9999-12-31T23:59:59.999Z");
