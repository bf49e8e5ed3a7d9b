// node:http for the bundle. The import of its module facade reads every export once, and getters among them load undici, which
// nothing here uses: an idle line had 8 MB more resident, an idle hub 3 MB.
module.exports = process.getBuiltinModule('node:http');
