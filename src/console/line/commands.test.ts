import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { dataFault, nameFault, withCommand, withoutCommand } from './commands.ts';

const command = (name: string, data = 'A') => ({ name, format: 'text', data, lineEnding: 'cr' }) as const;
const items = [command('one'), command('two')];

describe('the list of saved commands', () => {
  it('has each name once, and none without a name', () => {
    assert.equal(nameFault(items, ' ', ''), 'Name: nothing is typed.');
    assert.equal(nameFault(items, ' two ', ''), 'Name: there is a command "two" already.');
    assert.equal(nameFault(items, 'two', 'one'), 'Name: there is a command "two" already.');
    assert.deepEqual([nameFault(items, 'two', 'two'), nameFault(items, 'Two', '')], [undefined, undefined]);
  });

  it('takes only what can be sent', () => {
    assert.equal(dataFault(command('x')), undefined);
    assert.match(dataFault(command('x', '\\q')) ?? '', /no escape/);
    assert.equal(dataFault(command('x', '')), 'Nothing was typed yet.');
  });

  it('keeps its order: a command is renamed in its place, a new one is the last', () => {
    assert.deepEqual(withCommand(items, command('uno'), 'one'), [command('uno'), command('two')]);
    assert.deepEqual(withCommand(items, command('three'), ''), [...items, command('three')]);
    assert.deepEqual(withCommand(items, command('back'), 'gone'), [...items, command('back')]);
    assert.deepEqual(withoutCommand(items, 'one'), [command('two')]);
  });
});
