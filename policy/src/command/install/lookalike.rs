//! Package names one slip of the finger away from names that everybody installs.

/// Names that many install and others imitate.
const KNOWN: &[&str] = &[
    // PyPI
    "aiohttp",
    "ansible",
    "anthropic",
    "asyncio",
    "attrs",
    "beautifulsoup4",
    "black",
    "boto3",
    "botocore",
    "celery",
    "certifi",
    "cffi",
    "charset-normalizer",
    "click",
    "colorama",
    "cryptography",
    "django",
    "docutils",
    "fastapi",
    "flask",
    "gunicorn",
    "httpx",
    "idna",
    "jinja2",
    "jsonschema",
    "jupyter",
    "keras",
    "langchain",
    "lxml",
    "markupsafe",
    "matplotlib",
    "mypy",
    "notebook",
    "numpy",
    "openai",
    "opencv-python",
    "packaging",
    "pandas",
    "paramiko",
    "pillow",
    "playwright",
    "poetry",
    "protobuf",
    "psutil",
    "psycopg2",
    "pydantic",
    "pygments",
    "pymongo",
    "pytest",
    "python-dateutil",
    "pyyaml",
    "redis",
    "requests",
    "rich",
    "scikit-learn",
    "scipy",
    "scrapy",
    "selenium",
    "sentry-sdk",
    "setuptools",
    "sqlalchemy",
    "streamlit",
    "sympy",
    "tensorflow",
    "torch",
    "torchvision",
    "tornado",
    "tqdm",
    "transformers",
    "typing-extensions",
    "urllib3",
    "uvicorn",
    "virtualenv",
    "werkzeug",
    // npm
    "angular",
    "axios",
    "babel",
    "bcrypt",
    "bluebird",
    "bootstrap",
    "chalk",
    "cheerio",
    "commander",
    "cross-env",
    "dotenv",
    "electron",
    "eslint",
    "ethers",
    "express",
    "jest",
    "jquery",
    "jsonwebtoken",
    "lodash",
    "mocha",
    "moment",
    "mongoose",
    "morgan",
    "next",
    "nodemon",
    "passport",
    "postcss",
    "prettier",
    "prisma",
    "puppeteer",
    "react",
    "react-dom",
    "redux",
    "rollup",
    "socket.io",
    "svelte",
    "tailwindcss",
    "typescript",
    "underscore",
    "vite",
    "vitest",
    "webpack",
    "winston",
    // crates.io
    "anyhow",
    "clap",
    "rand",
    "rayon",
    "regex",
    "reqwest",
    "serde",
    "serde_json",
    "thiserror",
    "tokio",
    "tracing",
];
/// Shorter names are too close to too many others.
const SHORTEST: usize = 5;

/// The known name that a package's name is nearly, if it is.
pub(super) fn meant(package: &str) -> Option<&'static str> {
    let end = package
        .find(|c: char| "=<>!~@[ ;:/".contains(c))
        .unwrap_or(package.len());
    let name = &package[..end];
    if KNOWN.contains(&name) {
        return None;
    }
    KNOWN
        .iter()
        .copied()
        .filter(|known| known.len() >= SHORTEST)
        .find(|known| is_slip(name.as_bytes(), known.as_bytes()))
}

/// Two neighbours swapped, a letter doubled, or one of a double letter left out. Other
/// neighbours (`preact`, `request`) are packages of their own.
fn is_slip(name: &[u8], known: &[u8]) -> bool {
    let same = name.iter().zip(known).take_while(|(a, b)| a == b).count();
    let (name_rest, known_rest) = (&name[same..], &known[same..]);
    match name.len().abs_diff(known.len()) {
        0 => match (name_rest, known_rest) {
            ([a, b, name @ ..], [c, d, known @ ..]) => a == d && b == c && a != b && name == known,
            _ => false,
        },
        1 => {
            let (longer, longer_rest, shorter_rest) = match name.len() > known.len() {
                true => (name, name_rest, known_rest),
                false => (known, known_rest, name_rest),
            };
            // Of a double letter the second is the first that differs.
            same > 0 && longer[same] == longer[same - 1] && longer_rest[1..] == *shorter_rest
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_seen_and_other_names_are_not() {
        for (name, known) in [
            ("reqeusts", Some("requests")),
            ("reqeusts==2.31.0", Some("requests")),
            ("reacct", Some("react")),
            ("expres", Some("express")),
            ("lodahs@4", Some("lodash")),
            ("djagno[argon2]", Some("django")),
            ("requests", None),
            ("request", None),
            ("preact", None),
            ("react-native", None),
            ("@types/react", None),
            ("left-pad", None),
            ("", None),
        ] {
            assert_eq!(meant(name), known, "{name}");
        }
    }
}
