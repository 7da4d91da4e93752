// Has a tool of the server "everything" called as a task, during which it asks,
// and prints what came of it, as JSON: node tasks.mjs URL TOOL.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const [url, tool] = process.argv.slice(2);
const client = new Client({ name: 'plughost-test', version: '1.0.0' }, { capabilities: { elicitation: {}, tasks: { list: {}, cancel: {} } } });
client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { interpretation: 'technical' } }));
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
await client.listTools();

const tasks = client.experimental.tasks;
const begin = (topic, ambiguous) =>
  tasks.callToolStream({ name: tool, arguments: { topic, ambiguous } }, undefined, { task: { ttl: 60000 } });

let created, result, error;
for await (const message of begin('clocks', true)) {
  created ??= message.task?.taskId;
  result ??= message.result;
  error ??= message.error?.message;
}
const fetched = await tasks.getTaskResult(created, CallToolResultSchema);
const finished = await tasks.getTask(created);

// Another one, which is given up when it has begun.
let given;
for await (const message of begin('tides', false)) {
  if (message.type === 'taskCreated') {
    given = await tasks.cancelTask(message.task.taskId);
    break;
  }
}
const listed = await tasks.listTasks().then(
  ({ tasks }) => tasks.length,
  () => -1,
);
await client.close();
console.log(
  JSON.stringify({
    text: result?.content?.[0]?.text ?? '',
    error,
    same: fetched.content[0].text === result?.content?.[0]?.text,
    finished: finished.status,
    cancelled: given?.status,
    listed,
  }),
);
