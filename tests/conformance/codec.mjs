// The requestState codec of the official TypeScript SDK: does it accept what is put behind a token that it minted?
// Prints for each ending whether it does, as JSON.
//
//     node codec.mjs ENDING …
import { createRequestStateCodec } from "@modelcontextprotocol/server";

const { mint, verify } = createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)) });
const token = await mint({ step: "confirm" });

const accepted = {};
for (const ending of process.argv.slice(2)) {
  accepted[ending] = await verify(token + ending).then(
    (payload) => payload.step === "confirm",
    () => false,
  );
}
console.log(JSON.stringify(accepted));
