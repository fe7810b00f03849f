"""Messages of Kafka as tasks fetch, decode and send them."""
