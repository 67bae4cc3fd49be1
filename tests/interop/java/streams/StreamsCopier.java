import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.CommonClientConfigs;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaClientSupplier;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * A Kafka Streams application that copies a topic, each number to the partition that it modulo their count says, and
 * counts the numbers by their last two digits; each new count goes to the topic "counts". The store lies in memory, so
 * that whoever gets one restores it from its changelog. It tells the steps of its transactions as
 * tests/support/transactions/copier.py does, and is gone when whoever started it is.
 */
public final class StreamsCopier implements KafkaClientSupplier {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int COUNTERS = 100;
    private static final int IDLE_MS = 100;
    private static final int COMMIT_INTERVAL_MS = 100;

    private final PrintStream steps = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] arguments) throws Exception {
        JsonNode options = JSON.readTree(arguments[1]);
        StreamsCopier copier = new StreamsCopier();
        KafkaStreams streams = new KafkaStreams(topology(options), settings(arguments[0], options), copier);
        streams.setUncaughtExceptionHandler(error -> {
            copier.write("failed", error.toString());
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.setStateListener((now, before) -> copier.write("state", now.toString()));
        Thread listening = new Thread(StreamsCopier::listen);
        listening.setDaemon(true);
        listening.start();
        streams.start();
        while (true) {
            Thread.sleep(IDLE_MS);
            copier.write("idle", null);
        }
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

    private static Topology topology(JsonNode options) {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> source = builder.stream(options.get("source").asText());
        source.to(options.get("target").asText(), Produced.streamPartitioner(
            (topic, number, value, partitions) -> Optional.of(Set.of(Integer.parseInt(number) % partitions))));
        source
            .groupBy((number, value) -> "" + Integer.parseInt(number) % COUNTERS, Grouped.as("counted"))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts")).withCachingDisabled())
            .mapValues(count -> "" + count)
            .toStream()
            .to("counts");
        return builder.build();
    }

    private static Properties settings(String stateDirectory, JsonNode options) {
        JsonNode consumer = options.get("consumer");
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, consumer.get("group.id").asText());
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("bootstrap_servers").asText());
        settings.put(StreamsConfig.CLIENT_ID_CONFIG, options.get("name").asText());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, stateDirectory + "/" + options.get("name").asText());
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, COMMIT_INTERVAL_MS);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(CommonClientConfigs.RECONNECT_BACKOFF_MS_CONFIG, 10);
        settings.put(CommonClientConfigs.RECONNECT_BACKOFF_MAX_MS_CONFIG, 100);
        settings.put(CommonClientConfigs.RETRY_BACKOFF_MS_CONFIG, 20);
        settings.put(CommonClientConfigs.RETRY_BACKOFF_MAX_MS_CONFIG, 100);
        int transactionTimeoutMs = options.get("transaction_timeout_ms").asInt();
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.TRANSACTION_TIMEOUT_CONFIG), transactionTimeoutMs);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG), 100);
        consumer.properties().forEach(each ->
            settings.put(StreamsConfig.mainConsumerPrefix(each.getKey()), each.getValue().asText()));
        return settings;
    }

    // -- the clients of Kafka Streams, of which the producer tells what it is asked to do

    @Override
    public Admin getAdmin(Map<String, Object> settings) {
        return Admin.create(settings);
    }

    @Override
    public Consumer<byte[], byte[]> getConsumer(Map<String, Object> settings) {
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    @Override
    public Consumer<byte[], byte[]> getRestoreConsumer(Map<String, Object> settings) {
        return getConsumer(settings);
    }

    @Override
    public Consumer<byte[], byte[]> getGlobalConsumer(Map<String, Object> settings) {
        return getConsumer(settings);
    }

    @Override
    public Producer<byte[], byte[]> getProducer(Map<String, Object> settings) {
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer()) {
            @Override
            public void beginTransaction() {
                super.beginTransaction();
                write("begun", null);
            }

            @Override
            public void sendOffsetsToTransaction(
                Map<TopicPartition, OffsetAndMetadata> offsets, ConsumerGroupMetadata group
            ) {
                super.sendOffsetsToTransaction(offsets, group);
                write("sent", null);
            }

            @Override
            public void commitTransaction() {
                super.commitTransaction();
                write("committed", null);
            }
        };
    }

    private void write(String step, String detail) {
        steps.println(JSON.createArrayNode().add(step).add("").add(detail));
    }
}
