//! rskafka. Arguments are the bootstrap servers, a name that is used for the topic, and the steps to try. Prints one line
//! per step: its name, a tab, and `ok` or what went wrong.

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use chrono::Utc;
use rskafka::client::partition::{Compression, OffsetAt, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;

const PARTITIONS: i32 = 2;
const RECORDS: usize = 100;
const TIMEOUT_MS: i32 = 30_000;
const CODECS: [Compression; 5] = [
    Compression::NoCompression,
    Compression::Gzip,
    Compression::Lz4,
    Compression::Snappy,
    Compression::Zstd,
];

type Outcome = Result<(), Box<dyn Error>>;

async fn create(client: &Client, topic: &str) -> Outcome {
    client.controller_client()?.create_topic(topic, PARTITIONS, 1, TIMEOUT_MS).await?;
    let topics = client.list_topics().await?;
    let found = topics.iter().find(|each| each.name == topic).ok_or("the topic is not listed")?;
    if found.partitions.len() != PARTITIONS as usize {
        return Err("the topic has another number of partitions".into());
    }
    Ok(())
}

async fn produce(client: &Client, topic: &str) -> Outcome {
    for partition in 0..PARTITIONS {
        let writer = client.partition_client(topic, partition, UnknownTopicHandling::Retry).await?;
        for (index, codec) in CODECS.into_iter().enumerate() {
            let numbers = (0..RECORDS)
                .filter(|number| number % PARTITIONS as usize == partition as usize && number / 2 % CODECS.len() == index);
            writer.produce(numbers.map(record).collect(), codec).await?;
        }
    }
    Ok(())
}

fn record(number: usize) -> Record {
    Record {
        key: Some(b"key".to_vec()),
        value: Some(format!("value-{number}").into_bytes()),
        headers: BTreeMap::new(),
        timestamp: Utc::now(),
    }
}

async fn consume(client: &Client, topic: &str) -> Outcome {
    let mut values = Vec::new();
    for partition in 0..PARTITIONS {
        let reader = client.partition_client(topic, partition, UnknownTopicHandling::Retry).await?;
        let mut offset = reader.get_offset(OffsetAt::Earliest).await?;
        let end = reader.get_offset(OffsetAt::Latest).await?;
        while offset < end {
            let (records, _) = reader.fetch_records(offset, 1..1_000_000, 1_000).await?;
            for each in records {
                offset = each.offset + 1;
                values.push(String::from_utf8(each.record.value.unwrap_or_default())?);
            }
        }
    }
    let mut expected: Vec<_> = (0..RECORDS).map(|number| format!("value-{number}")).collect();
    values.sort();
    expected.sort();
    if values != expected {
        return Err(format!("{} records were read instead of {RECORDS}, or others", values.len()).into());
    }
    Ok(())
}

async fn delete(client: &Client, topic: &str) -> Outcome {
    client.controller_client()?.delete_topic(topic, TIMEOUT_MS).await?;
    Ok(())
}

async fn attempt(step: &str, client: &Client, topic: &str) -> Outcome {
    match step {
        "create" => create(client, topic).await,
        "produce" => produce(client, topic).await,
        "consume" => consume(client, topic).await,
        "delete" => delete(client, topic).await,
        _ => Err("the program does not know this step".into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().collect();
    let client = ClientBuilder::new(vec![arguments[1].clone()]).build().await?;
    for step in &arguments[3..] {
        let bounded = Duration::from_millis(TIMEOUT_MS as u64);
        let outcome = match tokio::time::timeout(bounded, attempt(step, &client, &arguments[2])).await {
            Ok(Ok(())) => "ok".to_owned(),
            Ok(Err(problem)) => problem.to_string().replace(['\n', '\t'], " "),
            Err(_) => "it took too long".to_owned(),
        };
        println!("{step}\t{outcome}");
    }
    Ok(())
}
