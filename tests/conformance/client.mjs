// The official TypeScript client: one move in a purge. Prints what came of it, as JSON.
//
//     node client.mjs URL complete|decline PREFIX    a whole purge, with a yes or a no to the question
//     node client.mjs URL ask PREFIX                 only round 1; prints the state
//     node client.mjs URL confirm PREFIX < STATE     only round 2, with a state that may come from elsewhere
import { readFileSync } from "node:fs";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const [url, move, prefix] = process.argv.slice(2);
const YES = { action: "accept", content: { confirm: true } };
const purge = { name: "purge_objects", arguments: { prefix } };

const client = new Client(
  { name: "typescript", version: "1" },
  {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: { pin: "2026-07-28" } }, // the default is an older revision, without requestState
  },
);
const asked = [];
client.setRequestHandler("elicitation/create", ({ params }) => {
  asked.push(params.message);
  return move === "decline" ? { action: "decline" } : YES;
});

const moves = {
  complete: () => client.callTool(purge),
  decline: () => client.callTool(purge),
  ask: () => client.callTool(purge, { allowInputRequired: true }),
  confirm: () =>
    client.callTool({ ...purge, inputResponses: { confirm_purge: YES }, requestState: readFileSync(0, "utf8") }),
};
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
try {
  const { content, isError, requestState } = await moves[move]();
  console.log(JSON.stringify({ asked, said: content?.map(({ text }) => text).join(" "), isError, requestState }));
} catch ({ code, message }) {
  console.log(JSON.stringify({ asked, code, message }));
}
await client.close();
