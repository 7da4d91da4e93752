// A server on standard input and output that asks for something in a result, as
// 2026-07-28 has it: node asking.mjs [reject]. With reject it knows nothing else.
import { McpServer, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

serveStdio(
  () => {
    const server = new McpServer({ name: 'asking', version: '1.0.0' }, { capabilities: { tools: {} } });
    server.registerTool('ask', { description: 'Ask the client' }, (context) => {
      const answer = inputResponse(context.mcpReq.inputResponses, 'who');
      if (answer.kind === 'elicit') return { content: [{ type: 'text', text: answer.action }] };
      const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
      return inputRequired({ inputRequests: { who: inputRequired.elicit({ message: 'Who?', requestedSchema }) } });
    });
    return server;
  },
  { legacy: process.argv[2] ?? 'serve' },
);
