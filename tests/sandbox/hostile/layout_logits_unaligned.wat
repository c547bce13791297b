;; expect: 1.15
;; role: sampler
;; layout: logits=4100

