import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Copies records between topics exactly once, in a process of its own: consume, produce and commit in one transaction.
 * It writes down each step as tests/support/transactions/copier.py does, and is gone when whoever started it is.
 */
final class Copier implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final int RECORDS_MAX = 500;
    /** One in so many transactions, at random, it aborts of its own will. */
    private static final int ABORTS_EACH = 8;

    private final PrintStream steps = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    private final String name;
    private final String source;
    private final String target;
    private final Random random;
    private final KafkaProducer<byte[], byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private int transactions;

    private Copier(JsonNode options) {
        name = options.get("name").asText();
        source = options.get("source").asText();
        target = options.get("target").asText();
        random = new Random(name.hashCode());
        producer = new KafkaProducer<>(producing(options), new ByteArraySerializer(), new ByteArraySerializer());
        consumer = new KafkaConsumer<>(consuming(options), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void run(String options) throws IOException {
        Thread listening = new Thread(Copier::listen);
        listening.setDaemon(true);
        listening.start();
        new Copier(Interop.JSON.readTree(options)).work();
    }

    private static void listen() {
        try {
            while (System.in.read() >= 0) {
                // Nothing that it could be told means anything to it.
            }
        } catch (IOException error) {
            // As good as the end.
        }
        Runtime.getRuntime().halt(1);
    }

    private static Map<String, Object> connecting(JsonNode options) {
        Map<String, Object> settings = new HashMap<>();
        settings.put(CommonClientConfigs.BOOTSTRAP_SERVERS_CONFIG, options.get("bootstrap_servers").asText());
        settings.put(CommonClientConfigs.CLIENT_ID_CONFIG, options.get("name").asText());
        settings.put(CommonClientConfigs.RECONNECT_BACKOFF_MS_CONFIG, 10);
        settings.put(CommonClientConfigs.RECONNECT_BACKOFF_MAX_MS_CONFIG, 100);
        settings.put(CommonClientConfigs.RETRY_BACKOFF_MS_CONFIG, 20);
        settings.put(CommonClientConfigs.RETRY_BACKOFF_MAX_MS_CONFIG, 100);
        return settings;
    }

    private static Map<String, Object> producing(JsonNode options) {
        Map<String, Object> settings = connecting(options);
        settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, options.get("transactional_id").asText());
        settings.put(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG, options.get("transaction_timeout_ms").asInt());
        return settings;
    }

    private static Map<String, Object> consuming(JsonNode options) {
        Map<String, Object> settings = connecting(options);
        settings.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_committed");
        settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
        settings.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, false);
        settings.put(ConsumerConfig.MAX_POLL_RECORDS_CONFIG, RECORDS_MAX);
        settings.put(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG, 100);
        settings.putAll(Interop.strings(options.get("consumer")));
        return settings;
    }

    private void work() {
        persist(producer::initTransactions);
        consumer.subscribe(List.of(source), this);
        while (true) {
            Iterable<ConsumerRecord<byte[], byte[]>> records = consumer.poll(POLL);
            if (!records.iterator().hasNext()) {
                write("idle", "", null);
                continue;
            }
            try {
                copy(records);
            } catch (ProducerFencedException | InvalidProducerEpochException error) {
                // Another has its transactional id now.
                write("ended", "", error.getClass().getSimpleName());
                return;
            } catch (KafkaException error) {
                persist(producer::abortTransaction);
                write("failed", transaction(), error.getClass().getSimpleName());
                goBack();
            }
        }
    }

    private void copy(Iterable<ConsumerRecord<byte[], byte[]>> records) {
        transactions++;
        producer.beginTransaction();
        int count = 0;
        for (ConsumerRecord<byte[], byte[]> ignored : records) {
            count++;
        }
        write("begun", transaction(), count);
        byte[] value = transaction().getBytes(StandardCharsets.UTF_8);
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        int sent = 0;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(target, record.partition(), record.key(), value));
            ends.put(new TopicPartition(source, record.partition()), new OffsetAndMetadata(record.offset() + 1));
            if (++sent == count / 2) {
                producer.flush();
                write("halfway", transaction(), null);
            }
        }
        persist(() -> producer.sendOffsetsToTransaction(ends, consumer.groupMetadata()));
        write("sent", transaction(), null);
        if (random.nextInt(ABORTS_EACH) == 0) {
            write("aborting", transaction(), null);
            persist(producer::abortTransaction);
            goBack();
        } else {
            persist(producer::commitTransaction);
            write("committed", transaction(), null);
        }
    }

    /** To where the last transaction that was committed ended. */
    private void goBack() {
        persist(() -> consumer.committed(consumer.assignment()).forEach((partition, committed) ->
            consumer.seek(partition, committed == null ? 0 : committed.offset())));
    }

    /** A call that takes too long may be made again, and then goes on with what it began. */
    private static void persist(Runnable attempt) {
        while (true) {
            try {
                attempt.run();
                return;
            } catch (TimeoutException error) {
                // Again.
            }
        }
    }

    private String transaction() {
        return name + "-" + transactions;
    }

    // -- The client goes on from the committed offsets of what it is given, and hands out nothing that it gave up.

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        write("assigned", "", partitions.size());
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        write("revoked", "", partitions.size());
    }

    private void write(String step, String transaction, Object detail) {
        ArrayNode line = Interop.JSON.createArrayNode().add(step).add(transaction);
        steps.println(line.add(Interop.JSON.<JsonNode>valueToTree(detail)));
    }
}
