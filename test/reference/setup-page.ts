/** docs/reference/setup-toml.md: every key of the card's setup.toml, as the example shows it. */
import { setupExample } from '../../src/appliance/setup/setup-keys.ts';
import { blocks, MADE, type Page } from './page.ts';

export function setupPage(): Page {
  return { text: blocks(MADE, '# setup.toml', intro, `\`\`\`toml\n${setupExample().trimEnd()}\n\`\`\``), holes: [] };
}

const intro = `The file on the card's partition LINESIDE that sets up a box: name, network, SSH, tokens, secrets. \`lineside setup example\` prints
the same. A changed file is applied at the next start; a fault is listed in \`setup-errors.txt\` on the card, and nothing is applied.
How to use it: [the first box](../tutorials/first-box.md), [prepare many cards](../how-to/operator/prepare-cards.md).`;
