// schema.js SCHEMA FILE...: validates files against speedscope's schema.
const fs = require("node:fs");
const Ajv = require("ajv");

const [schema, ...files] = process.argv.slice(2);
const validate = new Ajv({ allErrors: true, strict: false }).compile(JSON.parse(fs.readFileSync(schema, "utf8")));
for (const file of files) {
  if (!validate(JSON.parse(fs.readFileSync(file, "utf8")))) {
    console.error(file, validate.errors);
    process.exit(1);
  }
}
