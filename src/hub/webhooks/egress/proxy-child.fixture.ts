/** A process of its own, since Node reads the proxy's variables when it starts: first Node's own agent, then the sender. */
import { get } from 'node:https';
import { senderFixture } from './sender.fixture.ts';

const [url = '', caFile = ''] = process.argv.slice(2);

/** Fails: the proxy hangs up. That it asks the proxy shows that the variables are in force. */
async function byNodesOwnAgent(): Promise<void> {
  await new Promise<void>((resolve) => {
    get(url, () => resolve()).once('error', () => resolve());
  });
}

await byNodesOwnAgent();
const own = senderFixture({ caFile });
const { status, cause } = await own.send(url);
own.sender.close();
process.stdout.write(JSON.stringify({ status, cause }));
